/**
 * `bun run renewals [-- --minutes 10]`: three running collectors renew certificates of five minutes, the shortest that core issues,
 * while one of them forwards without a pause; the edge drops the response to the first renewal. Prints one JSON object; exit code 1
 * unless every line was stored once, every queue's sequences have no gap, and every host renewed as often as the time allows.
 */

import { parseArgs } from "node:util";
import { countContent } from "../../../scripts/demo/count-content.ts";
import { type LabContext, reportFromLab } from "../../../scripts/lab/context.ts";
import { type Deployment, startDeployment } from "../../../scripts/lab/deployment.ts";
import { tabulateStored } from "../../../scripts/lab/tabulate-stored.ts";
import { waitUntil } from "../../../scripts/lab/wait-until.ts";

const certificateSeconds = 300;
/** Half of the lifetime, a tenth of it as jitter, and what a start and a lost response take. */
const renewalSecondsMax = certificateSeconds * 0.6 + 30;
const linesPerStep = 50;
const stepMs = 250;

const { values } = parseArgs({ options: { minutes: { type: "string", default: "10" } } });
const minutes = Number(values.minutes);

const renewalsByHost = async ({ sql }: Deployment): Promise<Record<string, number>> => {
  const rows = await sql<{ host: string; count: number }[]>`
    select actor_display as host, count(*)::int as count from audit_event where action = 'certificate.renew' group by 1`;
  return Object.fromEntries(rows.map(({ host, count }) => [host, count]));
};

/** Counts the queues whose stored sequences are not 1, 2, 3, … */
const queuesWithGaps = async ({ sql }: Deployment): Promise<number> => {
  await tabulateStored(sql);
  const [row] = await sql<{ count: number }[]>`
    select count(*)::int as count from (
      select 1 from stored_envelope group by host_id, queue_id
      having min(sequence) <> 1 or max(sequence) <> count(*) or count(distinct sequence) <> count(*)) as gaps`;
  return row?.count ?? -1;
};

/** Writes lines for the whole time; returns their ids. */
const writeLines = async (
  { lines }: Deployment,
  { clock, signal }: LabContext,
): Promise<Set<string>> => {
  const sent = new Set<string>();
  const end = clock.monotonic() + minutes * 60_000;
  while (clock.monotonic() < end) {
    const ids = Array.from({ length: linesPerStep }, (_, index) => `line-${sent.size + index}`);
    await lines.append(ids);
    for (const id of ids) sent.add(id);
    await clock.sleep(stepMs, signal);
  }
  return sent;
};

await reportFromLab({ name: "renewals" }, async (context, cleanup) => {
  let dropped = 0;
  const deployment = await startDeployment(
    {
      policy: { certificate_ttl_seconds: certificateSeconds },
      dropsResponse: (path) => path === "/v1/collector/renew" && dropped === 0 && ++dropped === 1,
    },
    context,
    cleanup,
  );
  context.progress(`certificates of ${certificateSeconds} s, for ${minutes} minutes`);
  const sent = await writeLines(deployment, context);
  const areStored = async () =>
    (await countContent(deployment.sql, sent)).missing === 0 || undefined;
  await waitUntil({ what: "everything is stored", ...context }, areStored).catch(() =>
    context.signal.throwIfAborted(),
  );

  const count = await countContent(deployment.sql, sent);
  const renewals = await renewalsByHost(deployment);
  const gaps = await queuesWithGaps(deployment);
  const states = (await deployment.readHealth()).map(({ state }) => state);
  const expected = Math.max(1, Math.floor((minutes * 60) / renewalSecondsMax));
  const ok =
    count.missing + count.duplicates + count.foreign + gaps === 0 &&
    Object.keys(renewals).length === 3 &&
    Object.values(renewals).every((times) => times >= expected) &&
    dropped === 1 &&
    states.every((state) => state === "healthy");
  return { minutes, ...count, gaps, renewals, expected, lost_answers: dropped, states, ok };
});
