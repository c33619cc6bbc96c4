/**
 * A TLS edge as a program of its own, so that its CPU time is not core's: terminates TLS and copies bytes to core's plain HTTP port. Its
 * environment has CERT_FILE, KEY_FILE and CORE_PORT; it logs its port when it is ready.
 */
import { readFileSync } from "node:fs";
import { connect } from "node:net";
import { createServer } from "node:tls";
import { listenOnLoopback } from "#scripts/ports.ts";

const { CERT_FILE = "", KEY_FILE = "", CORE_PORT = "" } = process.env;

const server = createServer(
  { cert: readFileSync(CERT_FILE), key: readFileSync(KEY_FILE), noDelay: true },
  (client) => {
    const core = connect({ host: "127.0.0.1", port: Number(CORE_PORT), noDelay: true });
    for (const socket of [client, core])
      socket.on("error", () => undefined).on("close", () => core.destroy());
    core.on("close", () => client.destroy());
    client.pipe(core).pipe(client);
  },
);
console.log(JSON.stringify({ msg: "ready", port: await listenOnLoopback(server) }));
process.once("SIGTERM", () => process.exit());
