/**
 * Accounts of hosts on their streams. Invariants: an account is decided on after every frame that its stream sent before it; one that fails by
 * a fault of core's own ends no stream, since telemetry does not depend on it.
 */
import { create } from "@bufbuild/protobuf";
import { type Account, type AccountAck, AccountAckSchema } from "../../proto/gen/svc/ingest/v1/ingest_pb.js";
import { Problem } from "../problems.ts";
import { databaseProblem } from "../store/database/problem.ts";
import type { Caller } from "./admission.ts";

/** Where accounts are decided on and stored. */
export interface AccountRegister {
  /** Rejects with a Problem, or the database's error. */
  accept(caller: Caller, account: Account): Promise<{ through: bigint; refused: string }>;
}

/** An account has one count for each kind and source of a host; ordinary ones have some hundred bytes. */
export const accountBytesMax = 64 * 1024;

/** Makes the function that decides on an account of a caller once `lastFrame`, of its stream, is settled. */
export const createAccountDesk = (register: AccountRegister | undefined, onFailure: (cause: unknown) => void) => {
  const decide = async (caller: Caller, account: Account): Promise<AccountAck> => {
    if (register === undefined) throw new Problem("frame_invalid", { detail: "this core takes no account" });
    if (account.body.length + account.signature.length > accountBytesMax)
      throw new Problem("frame_too_large", { detail: `an account has at most ${accountBytesMax} bytes` });
    try {
      return create(AccountAckSchema, await register.accept(caller, account));
    } catch (error) {
      const problem = error instanceof Problem ? error : databaseProblem(error);
      if (problem) throw problem;
      onFailure(error);
      return create(AccountAckSchema, { refused: "internal" });
    }
  };

  return async (caller: Caller, account: Account, lastFrame: Promise<unknown>): Promise<AccountReply> => {
    await lastFrame.catch(() => undefined);
    return { case: "accountAck", value: await decide(caller, account) };
  };
};

/** The answer to an account, as a message of the stream. */
export interface AccountReply {
  case: "accountAck";
  value: AccountAck;
}
