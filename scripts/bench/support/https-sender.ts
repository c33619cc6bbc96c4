import { connect } from "node:tls";

/** A kept HTTP/1.1 connection over TLS, for one request at a time. */
export interface HttpsSender {
  /** Sends a POST with a JSON body, unless `headers` name another type; resolves with the status and the body of the response. */
  post(
    path: string,
    body: string | Uint8Array,
    headers?: string,
  ): Promise<{ status: number; text: string }>;
  close(): void;
}

/**
 * Connects to `localhost`, as cheaply as possible, so that the bench measures core: it writes the request itself and understands responses with
 * a Content-Length, or in chunks that it leaves as they are.
 */
export const connectHttps = async (options: {
  port: number;
  ca: string;
  cert?: string;
  key?: string;
}): Promise<HttpsSender> => {
  const socket = connect({ host: "127.0.0.1", servername: "localhost", ...options });
  socket.setNoDelay();
  let received: Buffer = Buffer.alloc(0);
  let waiting: PromiseWithResolvers<{ status: number; text: string }> | undefined;
  const fail = (error: Error) => waiting?.reject(error);
  const settle = () => {
    const end = received.indexOf("\r\n\r\n");
    if (end < 0) return;
    const head = received.toString("latin1", 0, end);
    const from = end + 4;
    const bytes = bodyBytes(head, received.subarray(from));
    if (bytes === undefined) return;
    if (Number.isNaN(bytes)) return fail(new Error(`a response without a length: ${head}`));
    const text = received.toString("utf8", from, from + bytes);
    received = received.subarray(from + bytes);
    const done = waiting;
    waiting = undefined;
    done?.resolve({ status: Number(head.slice(9, 12)), text });
  };
  await new Promise<void>((resolve, reject) => {
    socket.once("secureConnect", () => resolve());
    socket.once("error", reject);
  });
  socket.on("error", fail);
  socket.on("close", () => fail(new Error("core closed the connection")));
  socket.on("data", (chunk: Buffer) => {
    received = received.length === 0 ? chunk : Buffer.concat([received, chunk]);
    settle();
  });
  return {
    post: (path, body, headers = "") => {
      waiting = Promise.withResolvers();
      if (socket.destroyed) fail(new Error("core closed the connection before the request"));
      const bytes = typeof body === "string" ? Buffer.from(body) : body;
      const type = headers.includes("Content-Type:") ? "" : "Content-Type: application/json\r\n";
      const head = `POST ${path} HTTP/1.1\r\nHost: localhost\r\n${type}${headers}Content-Length: ${bytes.length}\r\n\r\n`;
      socket.write(Buffer.concat([Buffer.from(head, "latin1"), bytes]));
      return waiting.promise;
    },
    close: () => socket.destroy(),
  };
};

const lastChunk = Buffer.from("0\r\n\r\n");

/** Returns the bytes of the body that `received` begins with; undefined while it is incomplete, NaN if the head has no length. */
const bodyBytes = (head: string, received: Buffer): number | undefined => {
  const length = /\r\ncontent-length: (\d+)/i.exec(head)?.[1];
  if (length !== undefined) return received.length < Number(length) ? undefined : Number(length);
  if (!/\r\ntransfer-encoding: chunked/i.test(head)) return Number.NaN;
  return received.subarray(-lastChunk.length).equals(lastChunk) ? received.length : undefined;
};
