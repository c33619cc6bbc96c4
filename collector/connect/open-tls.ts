import { once } from "node:events";
import { type ConnectionOptions, connect, type TLSSocket } from "node:tls";
import { errorCode } from "#kit/describe-error.ts";
import type { Server } from "./no-proxy.ts";
import { chooseProxy, type ProxyChoice, ProxyError, proxyName } from "./proxy.ts";
import { isUntrusted, type ResumeTls } from "./resume-tls.ts";
import { openTunnel } from "./tunnel.ts";

/** The authorities that verify a server. */
export interface Authorities {
  /** Returns PEM texts. The next one verifies a server if the one before does not accept it. */
  inOrder(): readonly string[];
  /** Called with the position of the text that has verified a server. */
  onVerified?(position: number): void;
}

type Connection = Omit<ConnectionOptions, "ca"> & Server;

interface Route {
  proxy: ProxyChoice | undefined;
  resume?: ResumeTls | undefined;
  signal: AbortSignal;
}

/**
 * Opens a TLS connection to a server, directly or in a tunnel through a proxy, which sees nothing of it. Without `ca`, the authorities of the
 * system verify the server. Resolves after the handshake. Throws `ProxyError`, also for a certificate that the proxy shows in place of the
 * server's, an error of the connection, or the signal's reason.
 */
export const openTls = async (
  { ca, ...settings }: Connection & { ca?: string | Authorities | undefined },
  route: Route,
): Promise<TLSSocket> => {
  const { inOrder, onVerified } =
    typeof ca === "object" ? ca : { inOrder: () => [ca], onVerified: undefined };
  const texts = inOrder();
  const open = async (position: number): Promise<TLSSocket> => {
    try {
      const socket = await openVerified(settings, texts[position], route);
      onVerified?.(position);
      return socket;
    } catch (error) {
      const isRefused = isUntrusted(error) || errorCode(error) === "server_untrusted";
      if (isRefused && position + 1 < texts.length) return open(position + 1);
      throw error;
    }
  };
  return open(0);
};

/** Opens a connection to a server that the authorities of one text verify. */
const openVerified = async (
  settings: Connection,
  authorities: string | undefined,
  { proxy: choice, resume = (open) => open({}), signal }: Route,
): Promise<TLSSocket> => {
  const proxy = choice && chooseProxy(choice, settings);
  const tunnel = proxy && (await openTunnel(proxy, settings, signal));
  const verified = { ...settings, ...(authorities !== undefined && { ca: authorities }) };
  let socket: TLSSocket | undefined;
  try {
    socket = resume(
      (session) => connect({ ...verified, ...(tunnel && { socket: tunnel }), ...session }),
      authorities,
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

/** Reports whether no authority of ours has issued a certificate. */
const isForeign = (error: unknown) =>
  /^(UNABLE_TO_|SELF_SIGNED_|DEPTH_ZERO_)/.test(errorCode(error) ?? "");
