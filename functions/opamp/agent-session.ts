/**
 * The exchange with one agent. Invariants:
 * - Core requests the full status when it has missed a message, but at most once in `fullStatusMs`, whatever the agent sends.
 * - Core sends an agent only what the agent's capabilities accept.
 * - After a message that core could not process it requests the full status.
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
import {
  type AgentAnswer,
  acknowledgementOf,
  decodeAgentMessage,
  encodeAnswer,
  readHeartbeat,
  refusalMessage,
} from "./agent-message.ts";
import type { AgentFile, AgentOffer } from "./agent-register.ts";
import { csrOf, hasStatus } from "./merge-message.ts";

/** Messages of an identity, at once and then per second. Above it, core answers that it is unavailable. */
export const agentTurns = { burst: 200, perSecond: 20 };

/** The shortest time between two requests for the full status. */
const fullStatusMs = 10_000;

const { ServerToAgentFlags_ReportFullState: fullStateFlag } = ServerToAgentFlags;

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

/** The answer to a message, encoded, and why core could not process it. */
interface Reply {
  answer: Uint8Array<ArrayBuffer>;
  fault?: Problem;
}

/** The exchange with one agent. */
export type AgentSession = ReturnType<typeof createAgentSession>;

/** Creates the session of a socket, or of one poll. Its messages must be given one after the other. */
export const createAgentSession = (needs: SessionNeeds) => {
  const { identity, file, turns, clock, isPoll } = needs;
  let last = file.last;
  let isFirst = true;
  let fullStatusAt = Number.NEGATIVE_INFINITY;

  const isOfAnother = ({ instanceUid }: AgentToServer): boolean =>
    last === undefined || !equalBytes(last.instanceUid, instanceUid);
  /** Reports whether core lacks parts of the agent's status after this message. */
  const lacksStatus = (message: AgentToServer): boolean => {
    if (message.agentDescription !== undefined) return false;
    if (last === undefined || isOfAnother(message)) return true;
    // A poll and a heartbeat may have nothing but their `instance_uid`.
    const isBare = message.sequenceNum === 0n && !hasStatus(message);
    return !isBare && message.sequenceNum !== last.sequenceNum + 1n;
  };
  const mayRequestFullStatus = (): boolean => {
    const now = clock.monotonic();
    if (now - fullStatusAt < fullStatusMs) return false;
    fullStatusAt = now;
    return true;
  };
  const note = ({ instanceUid, sequenceNum, capabilities }: AgentToServer) => {
    const before = last && equalBytes(last.instanceUid, instanceUid) ? last : undefined;
    last = {
      // A copy: its own would keep the whole message.
      instanceUid: before?.instanceUid ?? Uint8Array.from(instanceUid),
      sequenceNum: sequenceNum || before?.sequenceNum || 0n,
      capabilities: capabilities || before?.capabilities || 0n,
    };
  };
  const accepts = (capability: AgentCapabilities): boolean =>
    ((last?.capabilities ?? 0n) & BigInt(capability)) !== 0n;

  /** Returns the message with what this agent accepts of an offer. */
  const answerOf = (instanceUid: Uint8Array, offer: AgentOffer, flag = 0): AgentAnswer => {
    const { remoteConfig, connectionSettings, needsAvailableComponents, restart } = offer;
    const to = { instanceUid, capabilities: isFirst ? serverCapabilities : 0n };
    // The agent ignores everything else in a command.
    if (restart && accepts(AgentCapabilities.AgentCapabilities_AcceptsRestartCommand))
      return { ...to, command: { type: CommandType.CommandType_Restart } };
    const components = needsAvailableComponents
      ? ServerToAgentFlags.ServerToAgentFlags_ReportAvailableComponents
      : 0;
    const acceptsConfig = accepts(AgentCapabilities.AgentCapabilities_AcceptsRemoteConfig);
    return {
      ...to,
      flags: BigInt(components | flag),
      ...(remoteConfig && acceptsConfig && { remoteConfig }),
      ...(connectionSettings && { connectionSettings }),
    };
  };
  const assign = (uid: Uint8Array): AgentAnswer["agentIdentification"] => {
    if (last) last = { ...last, instanceUid: uid };
    return { newInstanceUid: uid };
  };

  const take = async (message: AgentToServer, isGap: boolean): Promise<AgentOffer> => {
    // The numbers of polls tell two agents apart, and an answer that was lost.
    if (hasStatus(message) || message.agentDisconnect || (isPoll && isGap))
      return file.take(message);
    if (isPoll) return file.seen(message.sequenceNum);
    // The connection before may have ended with an offer under way.
    return isFirst && !isGap ? file.review() : {};
  };
  const process = async (message: AgentToServer): Promise<AgentAnswer> => {
    const { instanceUid, flags } = message;
    const requestsUid = flags & BigInt(AgentToServerFlags.AgentToServerFlags_RequestInstanceUid);
    // From now on the agent has the assigned one.
    if (requestsUid) message.instanceUid = newInstanceUid(needs);
    const lacks = lacksStatus(message);
    // Of an agent that core does not know, a part says nothing.
    const isUnknown = lacks && last === undefined;
    const isGap = lacks && !isOfAnother(message);
    if (!isUnknown) note(message);
    const offer = isUnknown ? {} : await take(message, isGap);
    if (message.agentDisconnect) return answerOf(instanceUid, {});
    const csr = csrOf(message);
    if (csr !== undefined) offer.connectionSettings = await file.sign(csr);
    const flag = (lacks || offer.needsFullStatus) && mayRequestFullStatus() ? fullStateFlag : 0;
    const answer = answerOf(instanceUid, offer, flag);
    if (requestsUid) answer.agentIdentification = { newInstanceUid: message.instanceUid };
    else if (offer.isUidTaken) answer.agentIdentification = assign(newInstanceUid(needs));
    return answer;
  };

  const tooMany = () =>
    new Problem("rate_limited", { retryAfterSeconds: turns.waitMs(identity) / 1_000 });
  const refuse = (error: unknown, instanceUid?: Uint8Array): Reply => {
    const fault = error instanceof Problem ? error : new Problem("internal", { cause: error });
    if (fault !== error) needs.onFailure(error);
    return { answer: refusalMessage(fault, instanceUid), fault };
  };
  /** Reports whether a message on a socket needs nothing but an acknowledgement. */
  const isHeartbeat = (message: AgentToServer): boolean =>
    !isPoll &&
    !isFirst &&
    message.flags === 0n &&
    message.agentDisconnect === undefined &&
    message.connectionSettingsRequest === undefined &&
    !hasStatus(message) &&
    !lacksStatus(message);

  /** Acknowledges the next heartbeat on a socket in its usual form, as `receive` acknowledges any; undefined for other messages. */
  const acknowledge = (bytes: Uint8Array): Reply | undefined => {
    const heartbeat = isPoll || isFirst || last === undefined ? undefined : readHeartbeat(bytes);
    if (heartbeat === undefined || last === undefined) return undefined;
    const { instanceUid, sequenceNum, capabilities } = heartbeat;
    if (sequenceNum !== last.sequenceNum + 1n || !equalBytes(last.instanceUid, instanceUid))
      return undefined;
    if (!turns.take(identity)) return refuse(tooMany(), instanceUid);
    last = {
      instanceUid: last.instanceUid,
      sequenceNum,
      capabilities: capabilities || last.capabilities,
    };
    return { answer: acknowledgementOf(last.instanceUid) };
  };

  return {
    /** Answers an encoded message; a heartbeat on a socket at once. Never rejects. */
    receive(bytes: Uint8Array): Reply | Promise<Reply> {
      const acknowledged = acknowledge(bytes);
      if (acknowledged) return acknowledged;
      let message: AgentToServer;
      try {
        message = decodeAgentMessage(bytes);
      } catch (error) {
        return refuse(error);
      }
      const { instanceUid } = message;
      if (!turns.take(identity)) return refuse(tooMany(), instanceUid);
      if (isHeartbeat(message)) {
        note(message);
        return { answer: encodeAnswer({ instanceUid }) };
      }
      return process(message)
        .then((answer) => {
          const encoded = encodeAnswer(answer);
          isFirst = false;
          return { answer: encoded };
        })
        .catch((error: unknown) => {
          last = undefined;
          return refuse(error, instanceUid);
        });
    },
    /**
     * Counts a heartbeat of a socket; `isDirected`: core has been told that it has something. Returns the message with what core has for
     * the agent; undefined for nothing.
     */
    async offer(isDirected: boolean): Promise<Uint8Array<ArrayBuffer> | undefined> {
      if (isFirst || last === undefined) return undefined;
      const offer = await (isDirected ? file.review() : file.seen());
      const answer = answerOf(last.instanceUid, offer);
      const { flags, remoteConfig, connectionSettings, command } = answer;
      return flags || remoteConfig || connectionSettings || command
        ? encodeAnswer(answer)
        : undefined;
    },
    /** Returns the message that assigns another `instance_uid`. */
    reassign: (): Uint8Array<ArrayBuffer> | undefined =>
      last &&
      encodeAnswer({
        instanceUid: last.instanceUid,
        agentIdentification: assign(newInstanceUid(needs)),
      }),
    /** The newest `instance_uid`. */
    uid: () => last?.instanceUid,
    cloneSuspected: file.cloneSuspected,
  };
};

/** Creates an `instance_uid`: a UUIDv7, as the specification recommends. */
const newInstanceUid = (needs: Pick<SessionNeeds, "clock" | "entropy">): Uint8Array<ArrayBuffer> =>
  Uint8Array.fromHex(uuidv7(needs).replaceAll("-", ""));
