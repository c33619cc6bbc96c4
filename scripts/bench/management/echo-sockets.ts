/**
 * A server that echoes WebSocket messages over mutual TLS, as a program of its own: what TLS and `ws` take alone. Its environment has
 * CERT_FILE, KEY_FILE and CA_FILE; it logs its port when it is ready.
 */
import { readFileSync } from "node:fs";
import { createServer } from "node:https";
import { WebSocketServer } from "ws";
import { listenOnLoopback } from "#scripts/ports.ts";

const { CERT_FILE = "", KEY_FILE = "", CA_FILE = "" } = process.env;

const server = createServer({
  cert: readFileSync(CERT_FILE),
  key: readFileSync(KEY_FILE),
  ca: readFileSync(CA_FILE),
  requestCert: true,
});
new WebSocketServer({ server }).on("connection", (socket) => {
  socket.on("message", (data: Buffer) => socket.send(data));
});
console.log(JSON.stringify({ msg: "ready", port: await listenOnLoopback(server) }));
process.once("SIGTERM", () => process.exit());
