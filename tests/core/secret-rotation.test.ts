import { type IncomingMessage, request, type ServerResponse } from "node:http";
import { afterAll, beforeAll, expect, it } from "vitest";
import { readMigrations } from "#functions/node/read-migrations.ts";
import { type ConnectedDatabase, connectDatabase } from "#functions/store/database/database.ts";
import { migrate } from "#functions/store/database/migrate.ts";
import { systemClock } from "#kit/clock.ts";
import { type ChatAnswer, startConversation } from "#scripts/lab/chat-client.ts";
import { coreEnvironment } from "#scripts/lab/core-environment.ts";
import { type IdentityProvider, startIdentityProvider } from "#scripts/lab/identity-provider.ts";
import { startLoopbackServer } from "#scripts/lab/loopback-server.ts";
import { people, seedPeople } from "#scripts/lab/people.ts";
import type { UserAgent } from "#scripts/lab/user-agent.ts";
import { signInAnew } from "#scripts/lab/walk-sign-in.ts";
import { providerEnvironment, webEnvironment } from "#scripts/lab/web-environment.ts";
import {
  type EmbeddedPostgres,
  startEmbeddedPostgres,
} from "#scripts/postgres/embedded-postgres.ts";
import { logged, type Program, startProgram, stopProgram } from "../support/program.ts";

/*
 * docs/rotate.md: both secrets, with two processes of core and two of web behind balancers, while an operator uses the page's API and the
 * chat. PostgreSQL listens on TCP, where it asks the chat's role for its password.
 */

const token = {
  old: "the old bridge secret, more than 32 bytes",
  next: "the next bridge secret, more than 32 bytes",
};
const session = {
  old: "the old session secret, more than 32 bytes",
  next: "the next session secret, more than 32 bytes",
};

type Service = "core" | "web";
type Environment = Record<string, string>;

/** The variables of each step of the table in docs/rotate.md; the first is the state before. */
const steps = [
  {
    core: { SVC_AUTH_TOKEN_SECRET: token.old },
    web: { SVC_AUTH_TOKEN_SECRET: token.old, WEBAUTH_SECRET: session.old },
  },
  {
    core: { SVC_AUTH_TOKEN_SECRET: token.old, SVC_AUTH_TOKEN_SECRET_PREVIOUS: token.next },
    web: {
      SVC_AUTH_TOKEN_SECRET: token.old,
      WEBAUTH_SECRET: session.old,
      WEBAUTH_SECRET_PREVIOUS: session.next,
    },
  },
  {
    core: { SVC_AUTH_TOKEN_SECRET: token.next, SVC_AUTH_TOKEN_SECRET_PREVIOUS: token.old },
    web: {
      SVC_AUTH_TOKEN_SECRET: token.next,
      WEBAUTH_SECRET: session.next,
      WEBAUTH_SECRET_PREVIOUS: session.old,
    },
  },
  {
    core: { SVC_AUTH_TOKEN_SECRET: token.next },
    web: { SVC_AUTH_TOKEN_SECRET: token.next, WEBAUTH_SECRET: session.next },
  },
];

interface Replica {
  program: Program;
  port: number;
  requests: number;
}

/** A balancer in front of the replicas of a service. Sends each request to the next of them, and none to one that is being stopped. */
const startBalancer = async () => {
  const { server, url, close } = await startLoopbackServer();
  const replicas: Replica[] = [];
  let count = 0;
  const fail = (response: ServerResponse) => response.headersSent || response.writeHead(502).end();
  server.on("request", (incoming: IncomingMessage, response: ServerResponse) => {
    const replica = replicas[count++ % replicas.length];
    if (replica === undefined) return fail(response);
    replica.requests += 1;
    response.on("close", () => (replica.requests -= 1));
    const { method, url: path, headers } = incoming;
    const upstream = request({ port: replica.port, method, path, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.rawHeaders);
      answer.pipe(response);
    });
    upstream.on("error", () => fail(response));
    incoming.pipe(upstream);
  });
  return {
    url,
    close,
    replicas,
    /** Adds a replica, once it is ready. If `replaces`, then drains and stops the oldest. */
    async roll(path: string, env: Environment, replaces: boolean) {
      const program = startProgram(path, [], env);
      replicas.push({ program, port: Number((await logged(program, "ready")).port), requests: 0 });
      const oldest = replaces ? replicas.shift() : undefined;
      if (oldest === undefined) return;
      await expect.poll(() => oldest.requests).toBe(0);
      expect(await stopProgram(oldest.program)).toBe(0);
    },
  };
};

let server: EmbeddedPostgres;
let database: ConnectedDatabase;
let identityProvider: IdentityProvider;
let balancers: Record<Service, Awaited<ReturnType<typeof startBalancer>>>;

beforeAll(async () => {
  // For the old cores beside the new ones, three of each in `test-replicas`.
  server = await startEmbeddedPostgres({ tcp: true, settings: { max_connections: "250" } });
  database = connectDatabase({ url: server.url(), connectionsMax: 1, deadlineMs: 60_000 });
  await migrate(database.sql, await readMigrations());
  await seedPeople(database.db, Date.now());
  balancers = { core: await startBalancer(), web: await startBalancer() };
  const { subject, email, displayName } = people.auditor;
  identityProvider = await startIdentityProvider({
    accounts: [{ subject, email, name: displayName }],
    webOrigins: [balancers.web.url],
  });
});
afterAll(async () => {
  for (const { replicas, close } of Object.values(balancers ?? {})) {
    for (const { program } of replicas) program.child.kill("SIGKILL");
    await Promise.all(replicas.map(({ program }) => program.exited));
    await close();
  }
  await identityProvider?.close();
  await database?.close();
  await server?.stop("immediate");
});

/** Starts one replica of each service with the secrets of a step, in place of the oldest if `replaces`. */
const roll = async (step: number, replaces = true) => {
  const usual = {
    core: {
      ...coreEnvironment(server.tcpUrl()),
      PORT: "0",
      SVC_HTTP_HOST: "127.0.0.1",
      SVC_INFERENCE_CHAT_MODEL: "mock",
    },
    web: webEnvironment({
      ...providerEnvironment(identityProvider),
      WEBAUTH_URL: balancers.web.url,
      SVC_API_URL: `${balancers.core.url}/v1`,
      SVC_DATABASE_URL: server.url(),
    }),
  };
  const start = (service: Service, path: string) =>
    balancers[service].roll(path, { ...usual[service], ...steps[step]?.[service] }, replaces);
  await Promise.all([start("core", "functions/main.ts"), start("web", "ui/bff/main.ts")]);
};

const signIn = () => signInAnew(balancers.web.url, "auditor");
const whoami = async (agent: UserAgent) => {
  const response = await agent.fetch(`${balancers.web.url}/api/core/whoami`);
  await response.body?.cancel();
  return response.status;
};

/** Several requests in each step of a restart, which leave it the processor. */
const betweenRequestsMs = 100;

/** What an operator gets while `work` runs: the statuses of requests, and the results of the chat's statements. */
const useDuring = async (agent: UserAgent, work: () => Promise<void>) => {
  const headers = { Origin: balancers.web.url };
  const conversation = await startConversation((path, init) =>
    agent.fetch(`${balancers.web.url}/api/core/chat${path}`, {
      ...init,
      headers: { ...init?.headers, ...headers },
    }),
  );
  const statuses: number[] = [];
  const answers: ChatAnswer[] = [];
  let isWorking = true;
  const load = Promise.all([
    (async () => {
      for (; isWorking; await systemClock.sleep(betweenRequestsMs))
        statuses.push(await whoami(agent));
    })(),
    (async () => {
      for (; isWorking; await systemClock.sleep(betweenRequestsMs))
        answers.push(await conversation.ask("Which versions run in the fleet?"));
    })(),
  ]);
  await Promise.all([load, work().finally(() => (isWorking = false))]);
  const kinds = answers.flatMap(({ results }) =>
    results.map((result) => (result.kind === "error" ? result : result.kind)),
  );
  return {
    statuses: new Set(statuses),
    kinds: new Set(kinds),
    requests: statuses.length,
    answers: answers.length,
  };
};

it("rotates both secrets in rolling restarts: no request and no statement of the chat fails, and no session ends", async () => {
  await roll(0, false);
  await roll(0, false);
  const before = await signIn();
  const untroubled = {
    statuses: new Set([200]),
    kinds: new Set(["relations", "relation", "rows"]),
  };
  const during = await useDuring(before, async () => {
    for (const step of [1, 2]) {
      await roll(step);
      await roll(step);
    }
  });
  expect(during).toMatchObject(untroubled);
  const after = await signIn();
  const last = await useDuring(after, async () => {
    await roll(3);
    await roll(3);
  });
  expect(last).toMatchObject(untroubled);
  expect(Math.min(during.answers, last.answers)).toBeGreaterThan(3);
  expect([await whoami(before), await whoami(after)]).toEqual([401, 200]);
}, 300_000);
