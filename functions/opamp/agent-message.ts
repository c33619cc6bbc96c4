import { create, fromBinary, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import {
  type AgentToServer,
  AgentToServerSchema,
  ServerErrorResponseType,
  type ServerToAgent,
  ServerToAgentSchema,
} from "#proto/gen/opamp/v1/opamp_pb.js";
import { createWireCheck } from "#proto/limits/wire-check.ts";
import { ProtobufError } from "#proto/wire.ts";
import { Problem, type ProblemKind } from "../problems.ts";

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

/** Encodes a message to an agent. */
export const encodeAnswer = (answer: AgentAnswer): Uint8Array<ArrayBuffer> =>
  toBinary(ServerToAgentSchema, create(ServerToAgentSchema, answer)) as Uint8Array<ArrayBuffer>;

const isRequestFault: Partial<Record<ProblemKind, true>> = {
  malformed: true,
  invalid: true,
  too_large: true,
  conflict: true,
};

/** Returns the answer to a message that core cannot process: whether the agent may send it again, and when. */
export const refusalOf = (
  problem: Problem,
  instanceUid: Uint8Array = new Uint8Array(),
): AgentAnswer => {
  const { detail = problem.code, retryAfterSeconds } = problem.options;
  const errorMessage = detail === problem.code ? detail : `${problem.code}: ${detail}`;
  if (isRequestFault[problem.kind])
    return {
      instanceUid,
      errorResponse: {
        type: ServerErrorResponseType.ServerErrorResponseType_BadRequest,
        errorMessage,
      },
    };
  return {
    instanceUid,
    errorResponse: {
      type: ServerErrorResponseType.ServerErrorResponseType_Unavailable,
      errorMessage,
      Details: {
        case: "retryInfo",
        value: {
          retryAfterNanoseconds:
            BigInt(Math.ceil(retryAfterSeconds ?? retrySeconds)) * 1_000_000_000n,
        },
      },
    },
  };
};

/** The shortest interval that the specification recommends. */
const retrySeconds = 30;
