import { beforeEach, expect, it } from "vitest";
import { heartbeatBody } from "#scripts/lab/heartbeat-body.ts";
import { createTestToken, manage } from "../support/collector.ts";
import { startTestAdmin } from "./support/admin.ts";

const { web, signIn, adminAt } = await startTestAdmin();
const { clock } = web.core;
const { enroll } = await createTestToken(web.core);
const host = await enroll("web-17");
/** Runs when svc-admin waits a second: the host's part, and core's clock. */
let onWait: () => Promise<unknown> = async () => undefined;
const admin = adminAt({
  clock: {
    ...clock,
    sleep: async (ms) => {
      await clock.advance(ms);
      await onWait();
    },
  },
});
beforeEach(async () => {
  await clock.advance(1000);
  await signIn();
});

/** Sends a heartbeat, and the answer if core asks for one. */
const beatAndAnswer = (answer: object) => async () => {
  const { body } = await manage(web.core, host, "heartbeat", heartbeatBody(clock.now()));
  const { request_id } = (body.send_diag ?? {}) as { request_id?: string };
  const sent_at = new Date(clock.now()).toISOString();
  if (request_id !== undefined)
    await manage(web.core, host, "diag", { sent_at, request_id, ...answer });
};

it("fetches the diagnostics of a host by its name, with nothing that commands the terminal", async () => {
  onWait = beatAndAnswer({
    bundle: JSON.stringify({ version: "1.0.0\u001b[2J", labels: { env: "prod" } }),
  });
  const { exitCode, out, err } = await admin.run`hosts diag web-17`;
  expect({ exitCode, err }).toEqual({
    exitCode: 0,
    err: expect.stringMatching(/^Waiting for the host, until \S+ at most.\n$/),
  });
  expect(JSON.parse(out)).toEqual({ version: "1.0.0\u001b[2J", labels: { env: "prod" } });
  expect(out).not.toContain("\u001b");
  expect((await admin.run`hosts diag web-17 -o yaml`).out).toContain("env: prod");
});

it("says plainly that the host's config forbids it, or that the host does not answer", async () => {
  onWait = beatAndAnswer({ refusal: "forbidden" });
  const forbidden = await admin.run`hosts diag web-17`;
  expect(forbidden).toMatchObject({ exitCode: 1, out: "" });
  expect(forbidden.err).toContain(
    "The host's own config forbids it: management.remote_diag is false",
  );
  onWait = async () => clock.advance(60_000);
  const unanswered = await admin.run`hosts diag web-17`;
  expect(unanswered).toMatchObject({ exitCode: 1, out: "" });
  expect(unanswered.err).toContain("The host did not answer in time");
});

it("has a host renew, and report", async () => {
  for (const verb of ["renew", "report"])
    expect(await admin.run`hosts ${verb} web-17`).toEqual({
      exitCode: 0,
      out: "",
      err: expect.stringMatching(/^Sent: /),
    });
  await beatAndAnswer({})();
  const { body } = await manage(web.core, host, "heartbeat", heartbeatBody(clock.now() + 1));
  expect(body).toMatchObject({ renew_now: true });
});

it("is for admins", async () => {
  await signIn("auditor");
  expect(await admin.run`hosts diag web-17`).toMatchObject({ exitCode: 1, out: "" });
});
