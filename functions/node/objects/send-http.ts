import { Agent, buildConnector, request } from "undici";
import type { SendHttp } from "#functions/objects/s3-calls.ts";
import { readCertificates } from "../config-files.ts";

const connectionsMax = 32;
const connectMsMax = 5_000;

/** Creates a client that keeps connections, and verifies servers by `caFile` as each connection finds it; null: by the machine's CAs. */
export const createSendHttp = (caFile: string | null): SendHttp => {
  const dispatcher = new Agent({
    connections: connectionsMax,
    pipelining: 1,
    // The caller has timeouts of its own.
    headersTimeout: 0,
    bodyTimeout: 0,
    connect: (options, callback) => {
      try {
        const ca = caFile === null ? {} : { ca: readCertificates(caFile) };
        buildConnector({ ...ca, timeout: connectMsMax })(options, callback);
      } catch (error) {
        callback(error as Error, null);
      }
    },
  });
  return async ({ url, body: sent = null, ...options }) => {
    const { statusCode, headers, body } = await request(url, {
      ...options,
      body: sent,
      dispatcher,
    });
    return { status: statusCode, header: (name) => [headers[name]].flat()[0], body };
  };
};
