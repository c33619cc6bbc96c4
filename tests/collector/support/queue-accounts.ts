import { createHash } from "node:crypto";
import { fromBinary } from "@bufbuild/protobuf";
import { expect } from "vitest";
import type { Queue } from "#collector/queue/queue.ts";
import type { AccountSigner } from "#collector/queue/seal-accounts.ts";
import { accountPayload } from "#proto/completeness/account.ts";
import { type AccountBody, AccountBodySchema } from "#proto/gen/svc/ingest/v1/ingest_pb.js";

/** A signer of accounts that needs no key. */
export const testSigner: AccountSigner = {
  hostId: "host",
  certificateSha256: new Uint8Array(32).fill(9),
  sign: (payload) => Uint8Array.from(createHash("sha256").update("key").update(payload).digest()),
};

/** Seals, returns and acknowledges the accounts that are pending. */
export const takeAccounts = (queue: Queue): AccountBody[] => {
  queue.accounts.seal(testSigner);
  const bodies: AccountBody[] = [];
  for (let next = queue.accounts.next(); next; next = queue.accounts.next()) {
    bodies.push(fromBinary(AccountBodySchema, next.body));
    expect(next.signature).toEqual(testSigner.sign(accountPayload(next.body)));
    queue.accounts.acknowledged();
  }
  return bodies;
};

/** Ends the period of the accounts, and returns what is pending of them. */
export const closeAccounts = (queue: Queue): AccountBody[] => {
  queue.accounts.stop();
  return takeAccounts(queue);
};

/** Returns reason, kind, source and records of what accounts refuse. */
export const refusalsOf = (accounts: readonly AccountBody[]): [number, string, string, number][] =>
  accounts.flatMap(({ refused }) =>
    refused.map(({ reason, kind, source, records }): [number, string, string, number] => [
      ...([reason, kind, source] as const),
      Number(records),
    ]),
  );
