declare const uPlot: any;
