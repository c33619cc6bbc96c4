/** A host whose accounts and records core has, for tests of statements. */
import { hash, sign } from "node:crypto";
import { encodeAccountBody } from "#collector/queue/seal-accounts.ts";
import { createAccountAcceptor } from "#functions/domain/telemetry/accept-account.ts";
import { hourMs } from "#kit/clock.ts";
import { accountPayload } from "#proto/completeness/account.ts";
import { encodePem } from "#proto/pem.ts";
import { createTestKey, issueTestCertificate, type TestCa } from "#scripts/lab/ca/test-pki.ts";
import type { TestCore } from "../core.ts";
import { openEnvelopeStore, storedQueue } from "../stored-envelopes.ts";

/** A host that states its hours, and whose records core stores. */
export interface StatedHost {
  store(...texts: string[]): Promise<void>;
  /** States the hour that begins at `fromMs`, with the records since the last account. */
  account(
    fromMs: number,
    stated?: { records?: number; dropped?: number; isForged?: boolean; toMs?: number },
  ): Promise<string>;
}

/** Gives a host of the fleet a key of its own. */
export const createStatedHost = async (
  test: TestCore,
  { host, ca }: { host: string; ca: TestCa },
): Promise<StatedHost & { close(): Promise<void> }> => {
  const key = await createTestKey();
  const der = await issueTestCertificate({ ca, key, uri: host });
  const fingerprint = hash("sha256", der, "buffer");
  await test.db.execute(
    `update certificate set certificate_pem = '${encodePem(der, "CERTIFICATE")}', fingerprint_sha256 = '\\x${fingerprint.toString("hex")}'
     where id = (select c.id from certificate c join collector_identity i on i.id = c.identity_id where i.identity = '${host}')`,
  );
  const accept = createAccountAcceptor(test.core);
  const store = await openEnvelopeStore(test.database, test.clock.now);
  let previousSha256: Uint8Array = new Uint8Array();
  let number = 0;
  let sequence = 0;
  let stored = 0;
  return {
    store: async (...texts) => {
      await store.lines(host, texts);
      stored += texts.length;
    },
    account: async (
      fromMs,
      { records = stored - sequence, dropped = 0, isForged = false, toMs = fromMs + hourMs } = {},
    ) => {
      number += 1;
      const body = Uint8Array.from(
        encodeAccountBody(
          {
            fromMs,
            toMs,
            stopped: false,
            atLeast: false,
            expired: 0,
            damaged: 0,
            fileGapBytes: 0,
            waitedMs: 0,
            firstSequence: sequence + 1,
            lastSequence: sequence + records,
            ackedBeforeThrough: 0,
            accepted:
              records === 0
                ? []
                : [{ kind: "log_line", source: "app", records, bytes: 10 * records }],
            refused:
              dropped === 0
                ? []
                : [{ reason: "queue_full", kind: "log_line", source: "app", records: dropped }],
          },
          {
            hostId: host,
            queueId: storedQueue,
            number,
            previousSha256,
            previousQueueId: new Uint8Array(),
            certificateSha256: fingerprint,
          },
        ),
      );
      sequence += records;
      const payload = accountPayload(body);
      previousSha256 = hash("sha256", payload, "buffer");
      const signature = Uint8Array.from(sign("sha256", isForged ? body : payload, key.pem));
      const caller = { identity: host, fingerprintSha256: fingerprint.toString("hex"), der };
      return (await accept(caller, { body, signature, earlierAreLost: false })).refused;
    },
    close: store.close,
  };
};
