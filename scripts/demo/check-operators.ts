import type { FleetHealthReport } from "../../proto/fleet-health/report.ts";
import { fleetStates } from "../../proto/fleet-health/vocabulary.ts";
import { type PersonName, people } from "../lab/people.ts";
import { createUserAgent, type UserAgent } from "../lab/user-agent.ts";
import { walkSignIn } from "../lab/walk-sign-in.ts";
import type { World } from "./world.ts";

/** What the people of the demo are to core and to web. */
export interface OperatorsReport {
  /** How the newest sync of the directory ended, and whom it brought. */
  directory: { outcome: string; people: readonly { email: string; scopes: readonly string[] }[] };
  /** A sign-in through the provider as each of them: the scopes that core then says they have, and the answer to `/fleet`'s report. */
  sign_ins: readonly { email: string; scopes: readonly string[]; fleet: number }[];
  /** The report as web gives it to the auditor. */
  fleet: { rows: number; by_state: FleetHealthReport["summary"]["by_state"] };
  ok: boolean;
}

/** Signs in as everybody and reads what they may, as a browser does. `collectors` is how many the fleet must have. */
export const checkOperators = async (
  { api, sql }: World,
  { origin, collectors }: { origin: string; collectors: number },
): Promise<OperatorsReport> => {
  const { last_sync } = await api<{ last_sync: { outcome: string } | null }>("reader", "GET", "/v1/directory/status");
  const rowsOfPeople = await sql<{ email: string; scopes: string }[]>`
    select primary_email as email, array_to_string(scopes, ' ') as scopes from person where status = 'active' order by 1`;
  const synced = rowsOfPeople.map(({ email, scopes }) => ({ email, scopes: scopes.split(" ") }));
  const names = Object.keys(people) as PersonName[];
  const agents = new Map<PersonName, UserAgent>();
  const signIns: OperatorsReport["sign_ins"][number][] = [];
  for (const name of names) {
    const agent = createUserAgent();
    agents.set(name, agent);
    await walkSignIn(agent, { origin, account: people[name].subject, returnTo: "/fleet" });
    const whoami = await agent.visit(`${origin}/api/core/whoami`);
    const { email = "", scopes = [] } = JSON.parse(whoami.text) as { email?: string; scopes?: string[] };
    signIns.push({ email, scopes, fleet: (await agent.visit(`${origin}/api/core/collector/health?limit=1`)).status });
  }
  const visit = await agents.get("auditor")?.visit(`${origin}/api/core/collector/health?limit=1000`);
  const fleet = JSON.parse(visit?.text ?? "{}") as Partial<FleetHealthReport>;
  const byState = fleet.summary?.by_state ?? {};
  const rows = fleet.items?.length ?? 0;
  return {
    directory: { outcome: last_sync?.outcome ?? "none", people: synced },
    sign_ins: signIns,
    fleet: { rows, by_state: byState },
    ok:
      last_sync?.outcome === "synced" &&
      synced.length === names.length &&
      names.every((name, index) => {
        const { email, scopes } = people[name];
        const isIt = (other: { email: string; scopes: readonly string[] } | undefined) =>
          other?.email === email && other.scopes.toSorted().join() === scopes.toSorted().join();
        const fleetStatus = scopes.includes("audit") ? 200 : 403;
        return synced.some(isIt) && isIt(signIns[index]) && signIns[index]?.fleet === fleetStatus;
      }) &&
      rows === collectors &&
      fleetStates.every((state) => (byState[state] ?? 0) > 0),
  };
};
