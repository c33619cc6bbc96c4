/**
 * The far end of the export bench, as a process of its own: accepts every OTLP/HTTP request and keeps nothing. Logs `ready` with its port.
 */
import { createServer } from "node:http";
import { listenOnLoopback } from "#scripts/ports.ts";

const server = createServer((request, response) => {
  request.resume();
  request.once("end", () =>
    response.writeHead(200, { "content-type": "application/x-protobuf" }).end(),
  );
});
console.log(JSON.stringify({ msg: "ready", port: await listenOnLoopback(server) }));
