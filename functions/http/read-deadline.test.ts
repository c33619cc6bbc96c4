import { expect, it } from "vitest";
import { createTestClock } from "#tests/fakes/clock.ts";
import { withReadDeadline } from "./read-deadline.ts";
import type { HttpContext } from "./request.ts";
import type { Route } from "./route-definition.ts";

const context = {} as HttpContext;
const routeOf = (handle: Route["handle"], change: Partial<Route> = {}): Route => ({
  method: "GET",
  path: "/v1/things",
  operationId: "listThings",
  summary: "",
  guard: { kind: "scope", scope: "audit" },
  replies: {},
  problems: [],
  handle,
  ...change,
});

it("answers database_unavailable after 4 s, and ends a stream that begins later", async () => {
  const clock = createTestClock();
  let begin: (response: Response) => void = () => undefined;
  const route = withReadDeadline(clock)(
    routeOf(
      () =>
        new Promise((resolve) => {
          begin = resolve;
        }),
    ),
  );
  const answer = route.handle(context).catch((error: unknown) => error);
  await clock.advance(3_999);
  expect(await Promise.race([answer, "waiting"])).toBe("waiting");
  await clock.advance(1);
  expect(await answer).toMatchObject({
    code: "database_unavailable",
    options: { detail: "The database did not answer within 4 s", retryAfterSeconds: 1 },
  });
  const cancelled = new Promise((resolve) => {
    begin(new Response(new ReadableStream({ cancel: () => resolve("cancelled") })));
  });
  expect(await cancelled).toBe("cancelled");
});

it("returns an answer in time, and leaves a body that takes longer alone", async () => {
  const clock = createTestClock();
  const response = new Response(new ReadableStream());
  const route = withReadDeadline(clock)(routeOf(async () => response));
  expect(await route.handle(context)).toBe(response);
  const read = response.body?.getReader().read();
  await clock.advance(60_000);
  expect(await Promise.race([read, "open"])).toBe("open");
});

it("applies to no other route: a host's request and a change have timeouts of their own", () => {
  const handle = async () => new Response();
  for (const change of [
    { method: "POST" },
    { guard: { kind: "collector" } },
    { guard: { kind: "ops" } },
  ] as const) {
    const route = routeOf(handle, change);
    expect(withReadDeadline(createTestClock())(route)).toBe(route);
  }
});
