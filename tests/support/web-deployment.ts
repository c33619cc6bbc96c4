import { type ChildProcess, execFileSync } from "node:child_process";
import { connectDatabase } from "#functions/store/database/database.ts";
import { systemClock } from "#kit/clock.ts";
import { systemEntropy } from "#kit/entropy.ts";
import { prepareIngestCore } from "#scripts/lab/ingest-core.ts";
import { people, seedPeople } from "#scripts/lab/people.ts";
import { seedFleet } from "#scripts/lab/seed-fleet.ts";
import { browserCookieOf, type VisitedWeb } from "#scripts/lab/visit-page.ts";
import { webEnvironment } from "#scripts/lab/web-environment.ts";
import { startEmbeddedPostgres } from "#scripts/postgres/embedded-postgres.ts";
import { parseWebConfig } from "#ui/bff/config.ts";
import { createSessions } from "#ui/bff/session.ts";
import { startTcpProxy, type TcpProxy } from "../fakes/tcp-proxy.ts";
import { logged, programFile, startProgram, stopProgram } from "./program.ts";

/** A part of a deployment that runs as a process of its own. */
export type DeployedPart = "web" | "core" | "postgres";

/** Web, core and PostgreSQL as real processes, with a network between them that fails on demand. */
export interface WebDeployment extends VisitedWeb {
  /** Between the browser and web. */
  front: TcpProxy;
  /** Between web and core. */
  middle: TcpProxy;
  /** Suspends every process of a part (SIGSTOP), or resumes them. */
  suspend(part: DeployedPart, isSuspended: boolean): void;
  close(): Promise<void>;
}

/** Starts a deployment with a fleet of `hosts`. Signing in is impossible: its identity provider does not exist. */
export const startWebDeployment = async ({ hosts }: { hosts: number }): Promise<WebDeployment> => {
  const cleanup = new AsyncDisposableStack();
  const postgres = await startEmbeddedPostgres();
  cleanup.defer(() => postgres.stop("immediate"));
  const authTokenSecret = systemEntropy.bytes(32).toHex();
  const prepared = await prepareIngestCore(postgres.url(), {
    env: { SVC_AUTH_TOKEN_SECRET: authTokenSecret },
    program: programFile("functions/main.ts"),
  });
  cleanup.defer(() => prepared.remove());
  const core = await prepared.start();
  core.process.stdout?.resume();
  cleanup.defer(() => void core.process.kill("SIGKILL"));
  const database = connectDatabase({ url: postgres.url(), connectionsMax: 1, deadlineMs: 0 });
  await seedPeople(database.db, Date.now());
  await seedFleet(database.db, { count: hosts, now: new Date() });
  await database.close();

  const middle = await startTcpProxy(core.port);
  cleanup.defer(() => middle.close());
  const front = await startTcpProxy(0);
  cleanup.defer(() => front.close());
  const origin = `http://127.0.0.1:${front.port}`;
  const env = webEnvironment({
    WEBAUTH_URL: origin,
    SESSION_TTL: "8h",
    SVC_API_URL: `http://127.0.0.1:${middle.port}/v1`,
    SVC_AUTH_TOKEN_SECRET: authTokenSecret,
    SVC_DATABASE_URL: postgres.url(),
  });
  const web = startProgram("ui/bff/main.ts", [], env);
  cleanup.defer(async () => {
    await stopProgram(web);
  });
  front.target(Number((await logged(web, "ready")).port));
  const { config } = parseWebConfig(env, () => "");
  const sessions = createSessions({ config, clock: systemClock, entropy: systemEntropy });

  const pidsOf: Record<DeployedPart, () => Iterable<number>> = {
    web: () => [pidOf(web.child)],
    core: () => [pidOf(core.process)],
    *postgres() {
      yield postgres.pid;
      const children = execFileSync("ps", ["-o", "pid=", "--ppid", String(postgres.pid)], {
        encoding: "utf8",
      });
      yield* children.trim().split(/\s+/).map(Number);
    },
  };
  const suspended = new Set<DeployedPart>();
  const suspend: WebDeployment["suspend"] = (part, isSuspended) => {
    // While the parent is stopped, it starts no child, and those that end keep their ids.
    if (isSuspended) for (const pid of pidsOf[part]()) process.kill(pid, "SIGSTOP");
    else for (const pid of [...pidsOf[part]()].reverse()) process.kill(pid, "SIGCONT");
    suspended[isSuspended ? "add" : "delete"](part);
  };
  // A suspended process takes no SIGTERM.
  cleanup.defer(() => {
    for (const part of suspended) suspend(part, false);
  });
  return {
    origin,
    front,
    middle,
    suspend,
    sessionOf: async (name) => browserCookieOf((await sessions.issue(people[name])).cookie),
    close: () => cleanup.disposeAsync(),
  };
};

const pidOf = ({ pid }: ChildProcess): number => {
  if (pid === undefined) throw new Error("the process did not start");
  return pid;
};
