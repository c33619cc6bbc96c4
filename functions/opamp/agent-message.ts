import { create, fromBinary, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import {
  type AgentToServer,
  AgentToServerSchema,
  type ServerErrorResponseSchema,
  ServerErrorResponseType,
  type ServerToAgent,
  ServerToAgentSchema,
} from "#proto/gen/opamp/v1/opamp_pb.js";
import { createWireCheck } from "#proto/limits/wire-check.ts";
import { ProtobufError } from "#proto/wire.ts";
import { Problem, type ProblemKind } from "../problems.ts";
import type { LastMessage } from "./agent-register.ts";

/** The largest message of an agent, after decompression. */
export const agentMessageBytesMax = 512 * 1024;

/** The length of an `instance_uid`. */
const instanceUidBytes = 16;

const wire = createWireCheck(AgentToServerSchema);

/** Decodes a message of an agent. Throws `agent_message_invalid`. */
export const decodeAgentMessage = (bytes: Uint8Array): AgentToServer => {
  const message = readMessage(bytes);
  if (message.instanceUid.length !== instanceUidBytes)
    throw new Problem("agent_message_invalid", {
      detail: `instance_uid has ${instanceUidBytes} bytes`,
    });
  return message;
};

const readMessage = (bytes: Uint8Array): AgentToServer => {
  try {
    wire.check(bytes);
    return fromBinary(AgentToServerSchema, bytes, { readUnknownFields: false });
  } catch (cause) {
    // Errors of our reader do not quote the message.
    const detail = cause instanceof ProtobufError ? cause.message : "not an AgentToServer message";
    throw new Problem("agent_message_invalid", { detail, cause });
  }
};

/** A ServerToAgent message before it is encoded. */
export type AgentAnswer = Exclude<MessageInitShape<typeof ServerToAgentSchema>, ServerToAgent>;

/** Encodes a message to an agent. Throws for one over the limit, which core never sends. */
export const encodeAnswer = (answer: AgentAnswer): Uint8Array<ArrayBuffer> => {
  const bytes = toBinary(ServerToAgentSchema, create(ServerToAgentSchema, answer));
  if (bytes.length > agentMessageBytesMax) throw new Error("a message to an agent is too large");
  return bytes as Uint8Array<ArrayBuffer>;
};

const { ServerErrorResponseType_BadRequest, ServerErrorResponseType_Unavailable } =
  ServerErrorResponseType;

/** The type of the error of each kind of problem; another kind is of an unknown type. */
const errorTypes: Partial<Record<ProblemKind, ServerErrorResponseType>> = {
  malformed: ServerErrorResponseType_BadRequest,
  invalid: ServerErrorResponseType_BadRequest,
  too_large: ServerErrorResponseType_BadRequest,
  throttled: ServerErrorResponseType_Unavailable,
  timeout: ServerErrorResponseType_Unavailable,
  unavailable: ServerErrorResponseType_Unavailable,
};

/** The shortest interval of retries that the specification recommends. */
const retrySeconds = 30;

/** Returns the message that says that core cannot process a message: whether the agent may send it again, and when. */
export const refusalMessage = (problem: Problem, instanceUid: Uint8Array = new Uint8Array()) =>
  encodeAnswer({ instanceUid, errorResponse: errorOf(problem) });

const errorOf = (problem: Problem): AgentAnswer["errorResponse"] => {
  const { code, kind, options } = problem;
  const { detail = code, retryAfterSeconds = retrySeconds } = options;
  const type = errorTypes[kind] ?? ServerErrorResponseType.ServerErrorResponseType_Unknown;
  const retryAfterNanoseconds = BigInt(Math.ceil(retryAfterSeconds)) * 1_000_000_000n;
  const Details: MessageInitShape<typeof ServerErrorResponseSchema>["Details"] = {
    case: "retryInfo",
    value: { retryAfterNanoseconds },
  };
  return {
    type,
    errorMessage: detail === code ? code : `${code}: ${detail}`,
    ...(type === ServerErrorResponseType_Unavailable && { Details }),
  };
};

/** The tags of `instance_uid`, `sequence_num` and `capabilities`. */
const uidTag = 0x0a;
const sequenceTag = 0x10;
const capabilitiesTag = 0x20;
/** Numbers of more bytes may be inexact. */
const varintBytesMax = 7;

/**
 * Returns the message of a heartbeat in its usual form: `instance_uid`, `sequence_num` and `capabilities`, in this order and nothing else.
 * Returns undefined for any other bytes, which `decodeAgentMessage` decodes: that takes five times as long.
 */
export const readHeartbeat = (bytes: Uint8Array): LastMessage | undefined => {
  const { length } = bytes;
  if (
    bytes[0] !== uidTag ||
    bytes[1] !== instanceUidBytes ||
    bytes[2 + instanceUidBytes] !== sequenceTag
  )
    return undefined;
  const sequenceNum = { value: 0 };
  const next = readVarint(bytes, 3 + instanceUidBytes, sequenceNum);
  const capabilities = { value: 0 };
  if (bytes[next] !== capabilitiesTag) return undefined;
  if (readVarint(bytes, next + 1, capabilities) !== length) return undefined;
  return {
    instanceUid: bytes.subarray(2, 2 + instanceUidBytes),
    sequenceNum: BigInt(sequenceNum.value),
    capabilities: BigInt(capabilities.value),
  };
};

/** Reads a varint; returns where it ends, 0 for none that is exact. */
const readVarint = (bytes: Uint8Array, start: number, read: { value: number }): number => {
  let factor = 1;
  for (let at = start; at < start + varintBytesMax; at++) {
    const byte = bytes[at];
    if (byte === undefined) return 0;
    read.value += (byte & 0x7f) * factor;
    if (byte < 0x80) return at + 1;
    factor *= 128;
  }
  return 0;
};

/** Returns the message that has nothing but the `instance_uid`. */
export const acknowledgementOf = (instanceUid: Uint8Array): Uint8Array<ArrayBuffer> => {
  const bytes = new Uint8Array(2 + instanceUidBytes);
  bytes[0] = uidTag;
  bytes[1] = instanceUidBytes;
  bytes.set(instanceUid, 2);
  return bytes;
};
