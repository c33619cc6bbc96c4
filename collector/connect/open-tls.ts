import { once } from "node:events";
import { type ConnectionOptions, connect, type TLSSocket } from "node:tls";
import { errorCode } from "#kit/describe-error.ts";
import type { Server } from "./no-proxy.ts";
import { chooseProxy, type ProxyChoice, ProxyError, proxyName } from "./proxy.ts";
import type { ResumeTls } from "./resume-tls.ts";
import { openTunnel } from "./tunnel.ts";

/**
 * Opens a TLS connection to a server, directly or in a tunnel through a proxy, which sees nothing of it. Resolves after the handshake. Throws
 * `ProxyError`, also for a certificate that the proxy shows in place of the server's, an error of the connection, or the signal's reason.
 */
export const openTls = async (
  settings: ConnectionOptions & Server,
  {
    proxy: choice,
    resume = (open) => open({}),
    signal,
  }: { proxy: ProxyChoice | undefined; resume?: ResumeTls | undefined; signal: AbortSignal },
): Promise<TLSSocket> => {
  const proxy = choice && chooseProxy(choice, settings);
  const tunnel = proxy && (await openTunnel(proxy, settings, signal));
  let socket: TLSSocket | undefined;
  try {
    socket = resume((session) =>
      connect({ ...settings, ...(tunnel && { socket: tunnel }), ...session }),
    );
    // The user of the connection adds listeners of its own.
    socket.on("error", () => undefined);
    await once(socket, "secureConnect", { signal });
    return socket;
  } catch (cause) {
    (socket ?? tunnel)?.destroy();
    signal.throwIfAborted();
    if (proxy === undefined || !isForeign(cause)) throw cause;
    throw new ProxyError(
      `the proxy ${proxyName(proxy)} answers for core with its own certificate (${(cause as Error).message.split(";")[0]}): core knows hosts by their certificates; except ${settings.host} from inspection, or compare the CA bundle`,
      { cause, code: "server_untrusted" },
    );
  }
};

/** Whether no authority of ours has issued a certificate. */
const isForeign = (error: unknown) =>
  /^(UNABLE_TO_|SELF_SIGNED_|DEPTH_ZERO_)/.test(errorCode(error) ?? "");
