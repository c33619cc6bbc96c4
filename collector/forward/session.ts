import type { ClientHttp2Stream } from "node:http2";
import { Http2SessionManager } from "@connectrpc/connect-node";

/**
 * The HTTP/2 session of one stream. Once aborted it stays silent: a session whose PING was not answered is destroyed at once and says
 * so only when its socket has closed, which takes as long as a dead peer lets it; by then connect-node 2.2 listens no more, and an
 * error that nobody listens to ends the process.
 */
export class ForwardSession extends Http2SessionManager {
  override async request(...call: Parameters<Http2SessionManager["request"]>): Promise<ClientHttp2Stream> {
    const stream = await super.request(...call);
    stream.session?.on("error", () => undefined);
    return stream;
  }
}
