"""A client of AWS's JSON protocol over HTTP/1.1, with its connections, signatures and credentials."""
