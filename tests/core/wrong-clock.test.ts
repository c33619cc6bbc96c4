import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import { issueClient } from "#scripts/lab/ca/issue-client.ts";
import { readCredentialFiles } from "#scripts/lab/ca/pki.ts";
import { useTestDatabase } from "../support/database.ts";
import { createTestLab } from "../support/deployment/lab.ts";
import { frame, newQueue, testHost } from "../support/frames.ts";
import { connectForeign, submit } from "../support/grpc-client.ts";

/* A core as a process on a machine whose clock is wrong. */

const dayMs = 86_400_000;
const { dir, pki, startCore } = await createTestLab();
const issued = await issueClient({
  dir: join(dir, "pki"),
  identity: testHost,
  lifetimeSeconds: 3600,
});
const certificate = {
  ...(await readCredentialFiles(issued)),
  der: new Uint8Array(),
};
// In place of the machine's clock.
await writeFile(
  join(dir, "shift.mjs"),
  "const { now } = Date; Date.now = () => now() + Number(process.env.TEST_SHIFT_MS);",
);

it.each([40, -40])(
  "a core whose clock is %i days wrong drops nothing, stores by the database's clock and is not ready",
  async (days) => {
    const database = await useTestDatabase();
    const { sql } = database.connect();
    await sql`insert into ingest_block (host_id, queue_id, first_sequence, last_sequence, envelopes, kinds, raw_bytes, payload_bytes,
      received_at, digest, encoding, data)
    select 'h', '\\x00', n, n, 1, '{log_line}', 0, 0, now() - n * interval '1 day', '', 1, '' from generate_series(1, 20) n`;
    const core = await startCore(
      {
        SVC_INGEST_REQUIRE_ENROLLMENT: "false",
        SVC_TRUST_LOOPBACK_OPS: "true",
        NODE_OPTIONS: `--import=${join(dir, "shift.mjs")}`,
        TEST_SHIFT_MS: String(days * dayMs),
      },
      database,
    );
    const client = connectForeign(
      { port: core.ingestPort, caPem: await readFile(pki.serverCaFile, "utf8") },
      certificate,
    );
    expect((await submit(client, frame(newQueue(), 1, 1))).error).toBeUndefined();
    client.close();
    const rows = await sql<{ age: number }[]>`
      select (extract(epoch from now() - received_at) / 86400)::float8 as age from ingest_block order by received_at desc`;
    expect(rows.map(({ age }) => Math.round(age))).toEqual(
      Array.from({ length: 21 }, (_, index) => index),
    );
    expect(await sql`select from audit_event where action = 'ingest_partition.drop'`).toHaveLength(
      0,
    );
    const answer = await fetch(`${core.url}/readyz`);
    const { checks } = await answer.json();
    expect(answer.status).toBe(503);
    expect(checks).toContainEqual({
      name: "clock",
      status: "not_ready",
      detail: expect.stringMatching(/^Core's clock is 34559\d\d s|^Core's clock is 34560\d\d s/),
    });
    const job = expect.objectContaining({
      job: "ingest partitions",
      dropped: [],
      clocks_differ: true,
    });
    await expect.poll(() => core.program.records).toContainEqual(job);
  },
);
