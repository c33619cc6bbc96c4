/**
 * The exchange with one agent. Invariants:
 * - Core requests the full state when it has missed a message, but at most once in `fullStateMs`, whatever the agent sends.
 * - Core sends an agent only what the agent's capabilities accept.
 * - The messages of a session are processed one after the other, and each is answered.
 */
import { equalBytes } from "#kit/bytes.ts";
import type { Clock } from "#kit/clock.ts";
import { type Entropy, uuidv7 } from "#kit/entropy.ts";
import type { TokenBuckets } from "#kit/token-buckets.ts";
import {
  AgentCapabilities,
  type AgentToServer,
  AgentToServerFlags,
  CommandType,
  ServerCapabilities,
  ServerToAgentFlags,
} from "#proto/gen/opamp/v1/opamp_pb.js";
import { Problem } from "../problems.ts";
import { type AgentAnswer, decodeAgentMessage, encodeAnswer, refusalOf } from "./agent-message.ts";
import type { AgentFile, AgentOffer } from "./agent-register.ts";
import { hasStatus } from "./merge-message.ts";

/** Messages of an identity, at once and then per second. Above it, core answers that it is unavailable. */
export const agentTurns = { burst: 200, perSecond: 20 };

/** The shortest time between two requests for the full state. */
const fullStateMs = 10_000;

/** What core does as a server (ServerCapabilities of the specification). */
const serverCapabilities = BigInt(
  ServerCapabilities.ServerCapabilities_AcceptsStatus |
    ServerCapabilities.ServerCapabilities_OffersRemoteConfig |
    ServerCapabilities.ServerCapabilities_AcceptsEffectiveConfig |
    ServerCapabilities.ServerCapabilities_OffersConnectionSettings |
    ServerCapabilities.ServerCapabilities_AcceptsConnectionSettingsRequest,
);

/** What a session needs. */
interface SessionNeeds {
  identity: string;
  file: AgentFile;
  turns: Pick<TokenBuckets, "take" | "waitMs">;
  clock: Pick<Clock, "now" | "monotonic">;
  entropy: Entropy;
  /** Whether each message counts as a heartbeat; a socket counts its heartbeats by itself. */
  isPoll: boolean;
  /** Receives what is no Problem. */
  onFailure(cause: unknown): void;
}

/** Creates the session of a socket, or of one poll. */
export const createAgentSession = (needs: SessionNeeds) => {
  const { identity, file, turns, clock, isPoll } = needs;
  let last = file.last;
  let isFirst = true;
  let fullStateAt = Number.NEGATIVE_INFINITY;
  let assignedUid: Uint8Array | undefined;

  /** Reports whether core lacks parts of the agent's status after this message. */
  const lacksStatus = (message: AgentToServer): boolean => {
    if (message.agentDescription !== undefined) return false;
    if (last === undefined || !equalBytes(last.instanceUid, message.instanceUid)) return true;
    // A poll and a heartbeat may have nothing but their `instance_uid`.
    const isBare = message.sequenceNum === 0n && !hasStatus(message);
    return !isBare && message.sequenceNum !== last.sequenceNum + 1n;
  };
  const mayRequestFullState = (): boolean => {
    const now = clock.monotonic();
    if (now - fullStateAt < fullStateMs) return false;
    fullStateAt = now;
    return true;
  };
  const note = ({ instanceUid, sequenceNum, capabilities }: AgentToServer) => {
    last = {
      instanceUid,
      sequenceNum: sequenceNum || (last?.sequenceNum ?? 0n),
      capabilities: capabilities || (last?.capabilities ?? 0n),
    };
  };
  const accepts = (capability: AgentCapabilities): boolean =>
    ((last?.capabilities ?? 0n) & BigInt(capability)) !== 0n;

  /** Returns what this agent accepts of an offer. */
  const acceptedOf = (offer: AgentOffer): AgentAnswer => ({
    ...(offer.remoteConfig &&
      accepts(AgentCapabilities.AgentCapabilities_AcceptsRemoteConfig) && {
        remoteConfig: offer.remoteConfig,
      }),
    ...(offer.connectionSettings && { connectionSettings: offer.connectionSettings }),
    ...(offer.needsAvailableComponents && {
      flags: BigInt(ServerToAgentFlags.ServerToAgentFlags_ReportAvailableComponents),
    }),
  });
  const answerOf = (instanceUid: Uint8Array, offer: AgentOffer, lacks: boolean): AgentAnswer => {
    const capabilities = isFirst ? serverCapabilities : 0n;
    // The agent ignores everything else in a command.
    if (offer.restart && accepts(AgentCapabilities.AgentCapabilities_AcceptsRestartCommand))
      return { instanceUid, capabilities, command: { type: CommandType.CommandType_Restart } };
    const accepted = acceptedOf(offer);
    const full =
      lacks && mayRequestFullState()
        ? BigInt(ServerToAgentFlags.ServerToAgentFlags_ReportFullState)
        : 0n;
    return {
      instanceUid,
      capabilities,
      ...accepted,
      flags: (accepted.flags ?? 0n) | full,
      ...(assignedUid && { agentIdentification: { newInstanceUid: assignedUid } }),
    };
  };

  const process = async (message: AgentToServer): Promise<AgentAnswer> => {
    const { instanceUid } = message;
    const requestsUid =
      (message.flags & BigInt(AgentToServerFlags.AgentToServerFlags_RequestInstanceUid)) !== 0n;
    assignedUid = requestsUid ? newInstanceUid(needs) : undefined;
    // From now on the agent has the assigned one.
    if (assignedUid) message.instanceUid = assignedUid;
    const lacks = lacksStatus(message);
    const isUnknown = lacks && last === undefined;
    note(message);
    if (message.agentDisconnect) {
      await file.disconnected();
      return answerOf(instanceUid, {}, false);
    }
    let offer: AgentOffer = {};
    // Of an agent that core does not know, a part says nothing.
    if (hasStatus(message) && !isUnknown) offer = await file.take(message);
    else if (isPoll && !isUnknown) offer = await file.seen(message.sequenceNum);
    if (offer.isUidTaken) assignedUid = newInstanceUid(needs);
    return answerOf(instanceUid, offer, lacks);
  };

  return {
    /** Answers an encoded message. Never rejects. */
    async receive(
      bytes: Uint8Array,
    ): Promise<{ answer: Uint8Array<ArrayBuffer>; fault?: Problem }> {
      let instanceUid: Uint8Array | undefined;
      try {
        const message = decodeAgentMessage(bytes);
        ({ instanceUid } = message);
        if (!turns.take(identity))
          throw new Problem("rate_limited", { retryAfterSeconds: turns.waitMs(identity) / 1_000 });
        const answer = await process(message);
        isFirst = false;
        return { answer: encodeAnswer(answer) };
      } catch (error) {
        const fault = error instanceof Problem ? error : new Problem("internal", { cause: error });
        if (fault !== error) needs.onFailure(error);
        return { answer: encodeAnswer(refusalOf(fault, instanceUid)), fault };
      }
    },
  };
};

/** Creates an `instance_uid`: a UUIDv7, as the specification recommends. */
const newInstanceUid = (needs: Pick<SessionNeeds, "clock" | "entropy">): Uint8Array<ArrayBuffer> =>
  Uint8Array.fromHex(uuidv7(needs).replaceAll("-", ""));
