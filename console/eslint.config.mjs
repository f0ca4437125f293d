// The rules of the console's code. Types are checked by `tsc`; what eslint adds are mistakes that types allow, and ways to
// turn text into HTML or code, of which the page has none.

// What the browser provides. A name that is not here is a mistake, or a new dependency on the browser that belongs here.
const BROWSER = [
  "AbortController", "AbortSignal", "Blob", "CSS", "CanvasRenderingContext2D", "CustomEvent", "Event", "FocusEvent", "HTMLButtonElement", "HTMLElement",
  "HTMLInputElement", "HashChangeEvent", "Headers", "Intl", "IntersectionObserver", "KeyboardEvent", "Node", "Path2D", "ResizeObserver",
  "Response", "URL", "URLSearchParams", "cancelAnimationFrame", "clearInterval", "clearTimeout", "document", "fetch",
  "getComputedStyle", "history", "localStorage", "location", "matchMedia", "navigator", "performance", "requestAnimationFrame",
  "sessionStorage", "setInterval", "setTimeout", "uPlot", "window",
];
const AS_TEXT = "Build elements with h() and s() of dom.js: they insert text as text.";
const HTML = ["innerHTML", "outerHTML", "insertAdjacentHTML", "setHTMLUnsafe", "createContextualFragment", "srcdoc", "parseFromString"];

export default [
  {
    files: ["console/js/**/*.js"],
    linterOptions: { reportUnusedDisableDirectives: "error" },
    languageOptions: { ecmaVersion: 2022, sourceType: "module", globals: Object.fromEntries(BROWSER.map((name) => [name, "readonly"])) },
    rules: {
      "no-undef": "error", "no-unused-vars": ["error", { argsIgnorePattern: "^_", caughtErrors: "all" }], "no-use-before-define": ["error", { functions: false, variables: false }],
      eqeqeq: "error", "prefer-const": "error", "no-var": "error", "no-shadow": ["error", { builtinGlobals: false }],
      "no-cond-assign": ["error", "except-parens"], "no-constant-condition": "error", "no-control-regex": "error", "no-dupe-args": "error", "no-dupe-keys": "error",
      "no-dupe-else-if": "error", "no-duplicate-case": "error", "no-duplicate-imports": "error", "no-empty": "error", "no-fallthrough": "error",
      "no-irregular-whitespace": "error", "no-loss-of-precision": "error", "no-promise-executor-return": "error", "no-self-assign": "error",
      "no-self-compare": "error", "no-sparse-arrays": "error", "no-template-curly-in-string": "error", "no-throw-literal": "error", "no-unmodified-loop-condition": "error",
      "no-unreachable": "error", "no-unsafe-finally": "error", "no-unsafe-negation": "error", "no-unsafe-optional-chaining": "error",
      "no-unused-expressions": "error", "no-useless-escape": "error", "no-useless-return": "error", "no-useless-rename": "error", "object-shorthand": "error",
      "array-callback-return": "error", "consistent-return": "off", "require-atomic-updates": "off", "use-isnan": "error", "valid-typeof": "error",
      "no-console": "error", "no-alert": "error", "no-debugger": "error",
      "no-eval": "error", "no-implied-eval": "error", "no-new-func": "error", "no-script-url": "error",
      "no-restricted-properties": ["error",
        ...HTML.map((property) => ({ property, message: AS_TEXT })),
        { object: "document", property: "write", message: AS_TEXT }, { object: "document", property: "writeln", message: AS_TEXT },
        { object: "document", property: "cookie", message: "The key stays in sessionStorage, and the page needs no cookie." }],
      "no-restricted-syntax": ["error",
        { selector: "AssignmentExpression > MemberExpression.left[property.value=/^(inner|outer)HTML$|^srcdoc$/]", message: AS_TEXT },
        { selector: "CallExpression[callee.property.name='setAttribute'][arguments.0.value=/^(on|style$|srcdoc$)/i]", message: "The page's policy allows neither inline handlers nor inline styles." }],
    },
  },
];
