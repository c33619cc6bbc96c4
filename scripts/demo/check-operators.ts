import type { FleetHealthReport } from "#proto/fleet-health/report.ts";
import { fleetStates } from "#proto/fleet-health/vocabulary.ts";
import type { LabContext } from "../lab/context.ts";
import type { Deployment } from "../lab/deployment.ts";
import { type PersonName, people, personNames } from "../lab/people.ts";
import type { UserAgent } from "../lab/user-agent.ts";
import { waitUntil } from "../lab/wait-until.ts";
import { signInAnew } from "../lab/walk-sign-in.ts";

/** Signs in as each person and reads what their scopes allow, as a browser does. Expects `collectors` rows in the fleet. */
export const checkOperators = async (
  { api, sql }: Deployment,
  { origin, collectors }: { origin: string; collectors: number },
  context: LabContext,
) => {
  const { last_sync } = await api<{ last_sync: { outcome: string } | null }>(
    "reader",
    "GET",
    "/v1/directory/status",
  );
  const rowsOfPeople = await sql<{ email: string; scopes: string }[]>`
    select primary_email as email, array_to_string(scopes, ' ') as scopes from person where status = 'active' order by 1`;
  const synced = rowsOfPeople.map(({ email, scopes }) => ({ email, scopes: scopes.split(" ") }));
  const agents = new Map<PersonName, UserAgent>();
  const signIns: { email: string; scopes: readonly string[]; fleet: number }[] = [];
  for (const name of personNames) {
    const agent = await signInAnew(origin, name, "/fleet");
    agents.set(name, agent);
    const whoami = await agent.visit(`${origin}/api/core/whoami`);
    const { email = "", scopes = [] } = JSON.parse(whoami.text) as {
      email?: string;
      scopes?: string[];
    };
    signIns.push({
      email,
      scopes,
      fleet: (await agent.visit(`${origin}/api/core/collector/health?limit=1`)).status,
    });
  }
  const read = async () => {
    const visit = await agents
      .get("auditor")
      ?.visit(`${origin}/api/core/collector/health?limit=1000`);
    return JSON.parse(visit?.text ?? "{}") as Partial<FleetHealthReport>;
  };
  const hasAllStates = ({ summary }: Partial<FleetHealthReport>) =>
    fleetStates.every((state) => (summary?.by_state[state] ?? 0) > 0);
  // A view is shared for a second or two: it may be of the time before rows were backdated.
  await waitUntil({ what: "the report has all states", ...context, timeoutMs: 10_000 }, async () =>
    hasAllStates(await read()) ? true : undefined,
  ).catch(() => context.signal.throwIfAborted());
  const fleet = await read();
  const rows = fleet.items?.length ?? 0;
  return {
    // The outcome of the newest directory sync, and the people that it wrote.
    directory: { outcome: last_sync?.outcome ?? "none", people: synced },
    // After a sign-in through the provider as each person: the scopes in core, and the status of the fleet report.
    sign_ins: signIns,
    // The report as web returns it to the auditor.
    fleet: { rows, by_state: fleet.summary?.by_state ?? {} },
    ok:
      last_sync?.outcome === "synced" &&
      synced.length === personNames.length &&
      personNames.every((name, index) => {
        const { email, scopes } = people[name];
        const isExpected = (other: { email: string; scopes: readonly string[] } | undefined) =>
          other?.email === email && other.scopes.toSorted().join() === scopes.toSorted().join();
        const fleetStatus = scopes.includes("audit") ? 200 : 403;
        return (
          synced.some(isExpected) &&
          isExpected(signIns[index]) &&
          signIns[index]?.fleet === fleetStatus
        );
      }) &&
      rows === collectors &&
      hasAllStates(fleet),
  };
};
