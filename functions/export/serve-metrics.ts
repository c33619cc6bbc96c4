import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { containFailures } from "#kit/contain-failures.ts";
import type { ExportMetrics } from "./export-metrics.ts";

/** Serves `/metrics`, and `/healthz` while the process runs; everything else is 404. Resolves once it listens. */
export const serveMetrics = async (
  { host, port }: { host: string; port: number },
  metrics: Pick<ExportMetrics, "render">,
  onFailure: (error: unknown) => void,
): Promise<{ port: number; close(): void }> => {
  const server = createServer({ requireHostHeader: false }, (request, response) => {
    if (request.url === "/healthz") return void response.end("ok\n");
    if (request.url !== "/metrics") return void response.writeHead(404).end();
    metrics.render().then(
      ({ type, content }) => response.writeHead(200, { "content-type": type }).end(content),
      () => response.writeHead(500).end(),
    );
  });
  containFailures(server, onFailure);
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, host, resolve);
  });
  return {
    port: (server.address() as AddressInfo).port,
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
};
