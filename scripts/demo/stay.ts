import type { PersonName } from "../../tests/people.ts";
import { people } from "../../tests/people.ts";
import { readHealth } from "./health.ts";
import { bridgeTokenOf } from "./operator-api.ts";
import { createSpanSender } from "./send-spans.ts";
import { type Surroundings, startWorld, type World } from "./world.ts";

const summaryEveryMs = 5_000;
const stepMs = 200;
const stepsPerRotation = 150;

/** Keeps a world up with its inputs flowing until the signal aborts; prints how to reach it, then a line now and then. */
export const stay = async (surroundings: Surroundings, cleanup: AsyncDisposableStack): Promise<void> => {
  const world = await startWorld(surroundings, cleanup);
  process.stdout.write(await introduction(world, surroundings.dir));
  await Promise.all([flow(world, surroundings), summarise(world, surroundings)]);
};

const flow = async ({ otlp, lines }: World, { clock, signal }: Surroundings): Promise<void> => {
  const senders = [
    createSpanSender("shop", "grpc", otlp.shopGrpc),
    createSpanSender("shop", "http", otlp.shopHttp),
    createSpanSender("cart", "http", otlp.cartHttp),
  ];
  try {
    for (let step = 0; ; step++) {
      for (const sender of senders) sender.send(`${step}`);
      await lines.append(Array.from({ length: 10 }, (_, index) => `line-${step * 10 + index}`));
      if (step % stepsPerRotation === stepsPerRotation - 1) await lines.rotateByRename();
      await clock.sleep(stepMs, signal);
    }
  } finally {
    await Promise.allSettled(senders.map((sender) => sender.close()));
  }
};

const summarise = async ({ api, sql }: World, { clock, signal, progress }: Surroundings): Promise<void> => {
  for (;;) {
    await clock.sleep(summaryEveryMs, signal);
    const rows = await readHealth(api);
    const stored = await sql<{ kind: string; count: number }[]>`
      select kind, count(*)::int as count from ingest_envelope group by kind order by kind`;
    const hosts = rows.map(({ device_id, state, queue }) => `${device_id} ${state} (queue ${queue?.records ?? "?"})`);
    progress([...hosts, ...stored.map(({ kind, count }) => `${count} ${kind}`)].join(" · "));
  }
};

const introduction = async ({ core, edge, lab, authTokenSecret, otlp, lines }: World, dir: string): Promise<string> => {
  const names = Object.keys(people) as PersonName[];
  const persons = await Promise.all(
    names.map(async (name) => {
      const { email, scopes } = people[name];
      return `  ${email.padEnd(22)} ${scopes.join(", ").padEnd(20)} export ${name.toUpperCase()}=${await bridgeTokenOf(authTokenSecret, name)}`;
    }),
  );
  return `
core (operators)   ${core.httpUrl}/v1
core (collectors)  ${edge.url}/v1 (TLS edge), ${core.ingestEndpoint} (ingest, mTLS)
OTLP for you       grpc http://${otlp.shopGrpc}, http http://${otlp.shopHttp}, http http://${otlp.cartHttp}
tailed             ${lines.include}
files and logs     ${dir}
bridge token key   ${dir}/auth-token-secret

People and their bridge tokens, good for an hour:
${persons.join("\n")}

Try, in a shell with one of these exports:
  curl -s -H "Authorization: Bearer $READER" ${core.httpUrl}/v1/whoami
  curl -s -H "Authorization: Bearer $AUDITOR" ${core.httpUrl}/v1/collector/health
  curl -s --cacert ${lab.serverCaFile} -H "Authorization: Bearer $AUDITOR" ${edge.url}/v1/collector/health

Ctrl-C stops everything.

`;
};
