import { createServer } from "node:http";
import { containFailures } from "#kit/contain-failures.ts";
import { startListening } from "../node/http/http-listener.ts";
import type { ExportMetrics } from "./export-metrics.ts";

/** Serves `/metrics`, and `/healthz` while the process runs; everything else is 404. Resolves once it listens. */
export const serveMetrics = async (
  address: { host: string; port: number },
  metrics: Pick<ExportMetrics, "render">,
  onFailure: (error: unknown) => void,
): Promise<{ port: number; close(): void }> => {
  const server = createServer({ requireHostHeader: false }, (request, response) => {
    if (request.url === "/healthz") return void response.end("ok\n");
    if (request.url !== "/metrics") return void response.writeHead(404).end();
    metrics.render().then(
      ({ type, content }) => response.writeHead(200, { "content-type": type }).end(content),
      (error: unknown) => {
        onFailure(error);
        response.writeHead(500).end();
      },
    );
  });
  containFailures(server, onFailure);
  return {
    port: await startListening(server, address),
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
};
