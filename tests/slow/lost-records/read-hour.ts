import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { hourMs } from "#kit/clock.ts";
import type { FleetCompleteness, HostCompleteness } from "#proto/completeness/report.ts";
import { hourText } from "#proto/completeness/statement-line.ts";
import { programPaths } from "#scripts/bundle/bundle-programs.ts";
import { bridgeTokenOf } from "#scripts/lab/operator-api.ts";
import { waitUntil } from "#scripts/lab/wait-until.ts";
import { incompleteText } from "#ui/app/completeness/incomplete-text.ts";
import type { StoryHost, StoryLab } from "./play-stories.ts";

/** Reads what each part says of a host's hour; `claims` are the states that they name, or `none`. */
export const readHour = async (
  lab: StoryLab,
  { collector: { identity }, identityId }: StoryHost,
  hour: number,
) => {
  const { api, sql } = lab;
  const range = `from=${new Date(hour).toISOString()}&to=${new Date(hour + hourMs).toISOString()}`;
  const host = await api<HostCompleteness>(
    "auditor",
    "GET",
    `/v1/collector/hosts/${identityId}/completeness?${range}`,
  );
  const week = await api<HostCompleteness>(
    "auditor",
    "GET",
    `/v1/collector/hosts/${identityId}/completeness`,
  );
  const csv = await readCsv(lab, `${range}&host=${encodeURIComponent(identity)}`);
  const text = await exportStatement(lab, hour);
  const line =
    text.split("\n").find((one) => one.startsWith("line ") && one.includes(` ${identity} `)) ?? "";
  const [relation] = await sql`select state, records_short::int, short_of from chat.incomplete_hours
    where identity = ${identity} and hour = ${new Date(hour).toISOString()}::timestamptz`;
  const [at] = host.hours;
  const stated =
    / (\S+)( |$)/.exec(line.slice(line.indexOf(identity) + identity.length))?.[1] ?? "none";
  return {
    host: { state: at?.state ?? "none", shortages: at?.shortages ?? [] },
    // Of a week in which it was enrolled for minutes.
    hours_listed: week.hours.length,
    csv: csv ?? "none",
    line: line.replace(/^line \d+ /, "").replace(/ of=\S+/, ""),
    chat: relation ?? "none",
    claims: [at?.state ?? "none", csv?.split(",")[4] ?? "none", stated, relation?.state ?? "none"],
  };
};

const states = [
  "complete",
  "undelivered",
  "short",
  "late",
  "silent",
  "not_running",
  "core_out",
  "not_accounted",
];

const readCsv = async (
  { httpUrl, authTokenSecret, userIds, now }: StoryLab,
  query: string,
): Promise<string | undefined> => {
  const state = states.map((one) => `state=${one}`).join("&");
  const response = await fetch(
    `${httpUrl}/v1/collector/completeness/export.csv?${query}&${state}`,
    {
      headers: {
        Authorization: `Bearer ${await bridgeTokenOf(authTokenSecret, "auditor", userIds, now())}`,
      },
    },
  );
  return (await response.text()).split("\r\n")[1] || undefined;
};

const exportStatement = async (lab: StoryLab, hour: number): Promise<string> => {
  const { code, stdout, stderr } = await lab.run([
    "export-completeness",
    hourText(hour),
    "--accounts",
  ]);
  if (code !== 0) throw new Error(`export-completeness: ${stderr}`);
  return stdout;
};

/** Changes to the file of a statement, each of which both verifiers must refuse. */
const changes: Record<string, (text: string, hour: number) => string> = {
  "another hour of the same log": (text, hour) =>
    text.replaceAll(hourText(hour), hourText(hour - hourMs)),
  "half an hour": (text, hour) => text.replaceAll(hourText(hour), hourText(hour + hourMs / 2)),
  "the year 2099": (text, hour) => text.replaceAll(hourText(hour), hourText(Date.UTC(2099, 0))),
  "a host twice": (text) => text.replace(/^line .*$/m, (line) => `${line}\n${line}`),
  "no line of a host": (text) => text.replace(/^line .*\n/m, ""),
  "short is complete": (text) => text.replace(/ short (.*) short=\S+/, " complete $1"),
  "bytes behind the end": (text) => `${text}\nmore\n`,
};

/** Verifies the statement with both programs, and again after each change; and returns the sentence of the page. */
export const tryChangedFiles = async (lab: StoryLab, hour: number) => {
  const { processes, context, keysFile, api } = lab;
  const verify = async (text: string, name: string) => {
    const path = join(context.dir, `${name.replaceAll(" ", "-")}.txt`);
    await writeFile(path, text);
    const ours = await processes.run({
      args: [programPaths["svc-server"], "verify-completeness", path, "--keys", keysFile],
    });
    const independent = await processes.run({
      args: ["docs/verify-statement.mjs", path, keysFile],
    });
    return { server: ours.code, independent: independent.code };
  };
  const text = await exportStatement(lab, hour);
  const changed = [];
  for (const [name, change] of Object.entries(changes)) {
    const other = change(text, hour);
    if (other === text) throw new Error(`nothing to change: ${name}`);
    changed.push({ change: name, ...(await verify(other, name)) });
  }
  const range = `from=${new Date(hour).toISOString()}&to=${new Date(hour + hourMs).toISOString()}`;
  const fleet = await api<FleetCompleteness>(
    "auditor",
    "GET",
    `/v1/collector/completeness?${range}`,
  );
  const [counts] =
    await lab.sql`select * from chat.completeness_hours where hour = ${new Date(hour).toISOString()}::timestamptz`;
  const whole = await verify(text, "whole");
  context.progress("core states the hour a second time in its log, with its key");
  const stated = await lab.sql`select hour from completeness_statement order by hour`;
  for (const row of stated)
    await lab.sql`update completeness_statement set hour = hour - interval '1 hour' where hour = ${row.hour}`;
  await waitUntil(
    { what: "core has stated the hour again", timeoutMs: 120_000, ...context },
    async () => {
      const rows =
        await lab.sql`select 1 from completeness_statement where hour = ${new Date(hour).toISOString()}::timestamptz`;
      return rows.length > 0 || undefined;
    },
  );
  changed.push({
    change: "a second entry of the hour",
    ...(await verify(await exportStatement(lab, hour), "second")),
  });
  return {
    whole,
    changed,
    page: { sentence: incompleteText(fleet), hours: fleet.hours, chat: counts ?? "none" },
  };
};
