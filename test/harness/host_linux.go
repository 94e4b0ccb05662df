package harness

// serverHost is where servers of a cluster listen. Connections come from
// 127.0.0.1, and so cannot take the port of a server that is down for a while.
const serverHost = "127.0.0.2"
