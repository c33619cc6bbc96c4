import { Client } from "pg";

/**
 * Opens a connection for COPY. pg, not postgres.js, because the latter can report a COPY that failed as finished. Rejects after
 * `connectTimeoutMs` (5 s) when the server does not answer. A connection lost while idle shows at its next use.
 */
export const openCopyClient = async (url: string, connectTimeoutMs = 5_000): Promise<Client> => {
  const client = new Client({
    connectionString: url,
    connectionTimeoutMillis: connectTimeoutMs,
    application_name: "svc-server ingest",
    keepAlive: true,
  });
  // Without a listener the loss of an idle connection would end the process.
  client.on("error", () => undefined);
  await client.connect();
  return client;
};
