import { expect, it } from "vitest";
import { type AppOptions, createApp } from "#functions/app.ts";
import { useTestWeb } from "#tests/support/web.ts";
import type { Fetch } from "./web.ts";

const web = await useTestWeb();
const cookie = (await web.sessionOf("auditor")).header;
const noPeer: AppOptions = {
  peerOf: () => ({ remoteAddress: "127.0.0.1", certificate: null, listener: "http" }),
};

const shown = async (app: typeof web.app): Promise<unknown> => {
  const headers = { Cookie: cookie };
  const answer = await app.request(`${web.origin}/api/session`, { headers });
  return answer.status === 200
    ? ((await answer.json()) as { chat_enabled: unknown }).chat_enabled
    : answer.status;
};
/** Web over the core of this file, whose `GET /v1/chat/status` answers as the test wants. */
const webOver = (status: () => Response | Promise<Response>) => {
  let asked = 0;
  const fetch: Fetch = async (url, init) => {
    if (!url.endsWith("/v1/chat/status")) return web.web.fetch(url, init);
    asked += 1;
    return status();
  };
  return { asked: () => asked, app: web.appWith({ fetch }) };
};
const problem = (status: number, code: string) => Response.json({ code, detail: "" }, { status });

it("offers chat as core has it, whatever the variables of web", async () => {
  expect(await shown(web.app)).toBe(true);
  const { config } = web.core;
  const off = createApp(
    { ...web.core.core, config: { ...config, chatEnabled: false }, chat: null },
    noPeer,
  );
  const none = createApp({ ...web.core.core, chat: null }, noPeer);
  for (const core of [off, none])
    expect(
      await shown(webOver(() => core.fetch(new Request("http://core.test/v1/chat/status"))).app),
    ).toBe(false);
  // The routes exist, and this person may not use them.
  expect(await shown(webOver(() => problem(403, "forbidden")).app)).toBe(true);
});

it("hides chat while core does not say, without an error of the page, and asks again", async () => {
  const answers = [
    () => Promise.reject(new TypeError("fetch failed")),
    () => problem(503, "database_unavailable"),
    () => new Response("<html>", { status: 503 }),
    () => new Response("", { status: 502 }),
    () => Response.json({}),
  ];
  const { app, asked } = webOver(() => (answers.shift() ?? (() => problem(404, "not_found")))());
  for (const expected of [false, false, false, false, true])
    expect(await shown(app)).toBe(expected);
  expect(asked()).toBe(5);
});

it("waits a second for that answer, and keeps it for half a minute", async () => {
  const { app, asked } = webOver(() => new Promise(() => undefined));
  const late = shown(app);
  await expect.poll(asked).toBe(1);
  await web.clock.advance(1000);
  expect(await late).toBe(false);
  const kept = webOver(() => Response.json({}));
  expect([await shown(kept.app), await shown(kept.app)]).toEqual([true, true]);
  await web.clock.advance(30_001);
  expect(await shown(kept.app)).toBe(true);
  expect(kept.asked()).toBe(2);
});
