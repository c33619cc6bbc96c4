import { once } from "node:events";
import { connect as connectHttp2 } from "node:http2";
import type { NetConnectOpts } from "node:net";
import { type ConnectionOptions, connect as connectTls } from "node:tls";
import { createResumeTls } from "../../collector/identity/resume-tls.ts";
import type { HttpsSender } from "./https-sender.ts";

/**
 * Sends as a collector does: each request has an HTTP/2 connection of its own, which
 * resumes the TLS session of the one before unless told otherwise. Unlike a
 * collector's, the connection has a local address of the caller's choice, since core limits the handshakes of each address.
 */
export const createCollectorSender = (
  target: { port: number; ca: string; cert: string; key: string; localAddress: string },
  { resumes }: { resumes: boolean },
): HttpsSender => {
  const resume = createResumeTls();
  // The types leave out the options of the socket.
  const settings: ConnectionOptions & NetConnectOpts = {
    host: "127.0.0.1",
    servername: "localhost",
    ALPNProtocols: ["h2"],
    ...target,
  };
  return {
    post: async (path, body) => {
      const socket = resumes ? resume((session) => connectTls({ ...settings, ...session })) : connectTls(settings);
      try {
        await once(socket, "secureConnect");
        const session = connectHttp2("https://localhost", { createConnection: () => socket });
        const failed = once(session, "close").then(() => Promise.reject(new Error("core closed the connection")));
        failed.catch(() => undefined);
        const stream = session.request({ ":method": "POST", ":path": path, "content-type": "application/json" });
        stream.end(body);
        const [headers] = await Promise.race([once(stream, "response"), failed]);
        let text = "";
        for await (const chunk of stream.setEncoding("utf8")) text += chunk;
        return { status: Number(headers[":status"]), text };
      } finally {
        socket.destroy();
      }
    },
    close: () => undefined,
  };
};
