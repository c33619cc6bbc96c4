/**
 * Accounts of hosts on their streams. Invariants: an account is decided on after every frame that its stream sent before it, and only while
 * its queue is as the stream left it: on a database that went back, what it lost would be missing. A stream has one unanswered account at most.
 * One that fails by a fault of core's own ends no stream, since telemetry does not depend on it.
 */
import { create } from "@bufbuild/protobuf";
import {
  type Account,
  type AccountAck,
  AccountAckSchema,
  type Ack,
} from "#proto/gen/svc/ingest/v1/ingest_pb.js";
import { Problem } from "../problems.ts";
import { databaseProblem } from "../store/database/problem.ts";
import type { Caller } from "./admission.ts";
import type { OpenedQueue } from "./open-queue.ts";

/** A queue as the stream of an account has it: its session, the sequence through which core has acknowledged, and its earlier ids. */
type QueueOfStream = Pick<OpenedQueue, "queueId" | "sessionId" | "cursor" | "left">;

/** Where accounts are decided on and stored. */
export interface AccountRegister {
  /** Rejects with a Problem, as `sequence_gap` where a queue is no longer as its stream left it, or the database's error. */
  accept(
    caller: Caller,
    account: Account,
    stream: QueueOfStream | undefined,
  ): Promise<{ through: bigint; refused: string }>;
}

/** What a stream has when an account arrives: its queue, and the last frame before the account. */
export interface AccountStream {
  queue: OpenedQueue | undefined;
  lastFrame: Promise<Ack | undefined>;
}

/** Returns what decides on the accounts of a caller's stream, each once the last frame before it is settled. */
type OpenAccountHandler = (
  caller: Caller,
  stream: () => AccountStream,
) => (account: Account) => Promise<AccountReply>;

/** Creates the handlers of all streams. */
export const createAccountHandlers = (
  register: AccountRegister | undefined,
  onFailure: (cause: unknown) => void,
): OpenAccountHandler => {
  const decide = async (
    register: AccountRegister,
    ...of: Parameters<AccountRegister["accept"]>
  ): Promise<AccountAck> => {
    try {
      return create(AccountAckSchema, await register.accept(...of));
    } catch (error) {
      const problem = error instanceof Problem ? error : databaseProblem(error);
      if (problem) throw problem;
      onFailure(error);
      return create(AccountAckSchema, { refused: "internal" });
    }
  };

  return (caller, stream) => {
    let isWaiting = false;
    return async (account) => {
      if (register === undefined)
        throw new Problem("frame_invalid", { detail: "this core takes no account" });
      if (isWaiting) throw new Problem("frame_invalid", { detail: "an account is unanswered" });
      isWaiting = true;
      const { queue, lastFrame } = stream();
      const ack = await lastFrame.catch(() => undefined);
      const left = queue && { ...queue, cursor: ack?.ackedThrough ?? queue.cursor };
      const value = await decide(register, caller, account, left);
      isWaiting = false;
      return { case: "accountAck", value };
    };
  };
};

/** The answer to an account, as a message of the stream. */
interface AccountReply {
  case: "accountAck";
  value: AccountAck;
}
