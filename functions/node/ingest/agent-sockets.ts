/** The WebSockets of agents that speak OpAMP. Each holds a slot of a call, and ends as streams do when its caller may send no longer. */
import type { IncomingMessage } from "node:http";
import type { TLSSocket } from "node:tls";
import { WebSocketServer } from "ws";
import type { EnteredAgent, IngestRoutes } from "#functions/ingest/service.ts";
import { agentMessageBytesMax } from "#functions/opamp/agent-message.ts";
import type { AgentRegister } from "#functions/opamp/agent-register.ts";
import { agentTurns, createAgentSession } from "#functions/opamp/agent-session.ts";
import { Problem } from "#functions/problems.ts";
import type { HostDirective } from "#functions/store/certificate/identities.ts";
import type { Clock } from "#kit/clock.ts";
import { type Entropy, fraction } from "#kit/entropy.ts";
import { createTokenBuckets } from "#kit/token-buckets.ts";
import { type AgentSocket, createAgentSocket, fragmentsMax } from "./agent-socket.ts";
import type { Connection } from "./ingest-connections.ts";
import { createTurns } from "./ingest-streams.ts";

/** What sockets need. */
interface AgentSocketNeeds {
  register: AgentRegister;
  clock: Clock;
  entropy: Entropy;
  log: { error(fields: object, message: string): void };
  ingest: Pick<IngestRoutes, "enterAgent">;
}

/** The WebSockets of a replica. */
export type AgentSockets = ReturnType<typeof createAgentSockets>;

/** A request to upgrade, as the server receives it. */
export interface Upgrade {
  request: IncomingMessage;
  socket: TLSSocket;
  head: Buffer;
}

/** The path at which agents connect. */
export const agentPath = "/v1/opamp";

/** Each check covers one of this many parts of the sockets. */
const checkParts = 15;
const closeTimeoutMs = 5_000;

/** Creates an empty set of sockets. */
export const createAgentSockets = (needs: AgentSocketNeeds) => {
  const { register, clock, entropy, log, ingest } = needs;
  const server = createServer();
  const turns = createTokenBuckets({ ...agentTurns, clock });
  const open = new Set<AgentSocket>();
  const byIdentity = new Map<string, Set<AgentSocket>>();
  const nextChecked = createTurns(open, checkParts);
  const onFailure = (err: unknown) => log.error({ err }, "a message of an agent failed");
  const shared = { turns, clock, intervalMs: register.intervalSeconds * 1_000, onFailure };

  const openSession = async ({ caller }: EnteredAgent) => {
    const { identity, identityId, connection } = caller;
    if (identityId === undefined) throw new Problem("certificate_unknown");
    const file = await register.open(
      { ...caller, remoteAddress: connection?.remoteAddress ?? "" },
      identityId,
      { isPoll: false },
    );
    const session = createAgentSession({ ...shared, entropy, identity, file, isPoll: false });
    return { identityId, session };
  };
  const add = (opened: AgentSocket, identityId: string, socket: TLSSocket) => {
    const others = byIdentity.getOrInsertComputed(identityId, () => new Set());
    for (const other of others) void other.findClone(opened).catch(onFailure);
    others.add(opened);
    open.add(opened);
    socket.once("close", () => {
      open.delete(opened);
      others.delete(opened);
      if (others.size === 0) byIdentity.delete(identityId);
    });
  };

  return {
    /** Upgrades a request. Throws a Problem, before anything was sent, if the agent may not connect. */
    async upgrade({ request, socket, head }: Upgrade, connection: Connection) {
      const entered = await ingest.enterAgent(connection.peer?.caller);
      socket.once("close", entered.leave);
      if (socket.destroyed) return entered.leave();
      const { identityId, session } = await openSession(entered).catch((error: unknown) => {
        entered.leave();
        throw error;
      });
      server.handleUpgrade(request, socket, head, (ws) => {
        const opened = createAgentSocket(shared, { ws, session, entered, connection });
        socket.on("data", (chunk: Buffer) => {
          if (!opened.received(chunk)) socket.end();
        });
        add(opened, identityId, socket);
      });
    },
    /** Sends what core has for these hosts. */
    direct({ identityIds, spreadMs }: HostDirective) {
      for (const id of identityIds)
        for (const { direct } of byIdentity.get(id) ?? [])
          void clock.sleep(fraction(entropy) * spreadMs).then(direct);
    },
    /** Call it every second: counts heartbeats of a part of the sockets, and ends those whose host has vanished. */
    check() {
      for (const socket of nextChecked()) socket.check();
    },
    /** Returns how many are open. */
    count: () => open.size,
  };
};

const createServer = () => {
  const limits = {
    maxPayload: agentMessageBytesMax,
    maxFragments: fragmentsMax,
    maxBufferedChunks: 256,
    closeTimeout: closeTimeoutMs,
  };
  return new WebSocketServer({
    ...limits,
    noServer: true,
    clientTracking: false,
    skipUTF8Validation: true,
  });
};
