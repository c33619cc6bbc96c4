import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { parse } from "yaml";
import { jsonLine, printRecord, printRows } from "#admin/terminal/output.ts";
import type { Terminal } from "#admin/terminal/terminal.ts";
import packageJson from "#package.json" with { type: "json" };
import { readRange, readTime } from "#proto/fleet-health/query-language/times.ts";
import { createTestToken, identityPrefix } from "../support/collector.ts";
import { publishTestConfig, testConfigYaml } from "../support/rollout.ts";
import { failsWith, startTestAdmin } from "./support/admin.ts";

const { web, home, signIn, adminAt } = await startTestAdmin();
const { clock } = web.core;
beforeEach(() => signIn());
const admin = adminAt();

const { enroll } = await createTestToken(web.core);
const hosts: { identityId: string; identity: string }[] = [];
for (const name of ["out-1", "out-2", "out-3", "out-4", "out-5"]) hosts.push(await enroll(name));
const hostId = hosts[0]?.identityId ?? "";
const configId = await publishTestConfig(web.core);

describe("lists", () => {
  it.each([["policies list"], [`certificates list ${hostId}`], ["fleet list"]])(
    "svc-admin %s prints the same rows as a table, CSV, JSON and YAML",
    async (line) => {
      const print = async (format: string) => {
        const { exitCode, out, err } = await admin.run(...line.split(" "), "-o", format);
        expect({ exitCode, err }).toEqual({ exitCode: 0, err: "" });
        return out;
      };
      const rows = JSON.parse(await print("json")) as object[];
      expect(rows.length).toBeGreaterThan(0);
      expect(parse(await print("yaml"))).toEqual(rows);
      const table = (await print("table")).trimEnd().split("\n");
      const csv = (await print("csv")).trimEnd().split("\r\n");
      expect([table.length, csv.length]).toEqual([rows.length + 1, rows.length + 1]);
      expect(table[0]?.split(/ {2,}/).join(",")).toBe(csv[0]);
    },
  );

  it("reads as many pages as it needs, and no more", async () => {
    const sent: string[] = [];
    // Pages of two.
    const fetch: Terminal["fetch"] = (input, init) => {
      const request = new Request(input, init);
      sent.push(request.url);
      return globalThis.fetch(new Request(request.url.replace("limit=1000", "limit=2"), request));
    };
    const reader = adminAt({ fetch });
    const list = async (...args: string[]) => {
      sent.length = 0;
      return JSON.parse((await reader.run("identities", "list", "-o", "json", ...args)).out).length;
    };
    expect([await list(), sent.length]).toEqual([5, 3]);
    sent.length = 0;
    expect(await reader.json`fleet list --limit 2`).toHaveLength(2);
    expect(sent).toEqual([expect.stringContaining("limit=2")]);
  });

  it("cuts the lines of a table at the width of the terminal, and nothing else", async () => {
    const narrow = adminAt({ columns: 60 });
    const lines = (await narrow.run`fleet list`).out.trimEnd().split("\n");
    expect(lines.every((line) => line.length <= 60)).toBe(true);
    expect(lines[1]).toMatch(/^[0-9a-f-]{36} .*…$/);
    expect((await narrow.run`fleet list -o csv`).out).toBe(
      (await admin.run`fleet list -o csv`).out,
    );
    expect((await narrow.run`identities show ${hostId}`).out).toContain(hosts[0]?.identity);
    const help = (await adminAt({ columns: 72 }).run("--help")).out.split("\n");
    expect(help.filter((line) => line.length > 72)).toEqual([]);
    expect(help.join("\n")).toMatch(/^ {2}queues +Queues of a host: list, close$/m);
  });

  it.each([{ NO_COLOR: "1" }, { FORCE_COLOR: "3" }])(
    "writes no escape sequence with %j",
    async (env) => {
      const user = adminAt({ env, columns: 200 });
      for (const args of [
        ["--help"],
        ["fleet", "list"],
        ["policies", "frobnicate"],
        ["policies", "show", "x"],
      ]) {
        const { out, err } = await user.run(...args);
        expect(out + err).not.toContain("\u001b");
      }
    },
  );
});

describe("audit list", () => {
  it("prints every event to a program, and says to a person that there are more", async () => {
    // Pages of three, and a table of three instead of a hundred.
    const fetch: Terminal["fetch"] = (input, init) => {
      const request = new Request(input, init);
      return globalThis.fetch(new Request(request.url.replace(/limit=\d+/, "limit=3"), request));
    };
    const reader = adminAt({ fetch });
    const all = await admin.json`audit list --limit 1000`;
    expect(all.length).toBeGreaterThan(6);
    expect(await reader.json`audit list`).toEqual(all);
    expect(parse((await reader.run`audit list -o yaml`).out)).toEqual(all);
    expect((await reader.run`audit list -o csv`).out.trimEnd().split("\r\n")).toHaveLength(
      all.length + 1,
    );
    const pages: Terminal["fetch"] = async (...args) => {
      const answer = await globalThis.fetch(...args);
      const page = await answer.json();
      return Response.json({ ...page, items: Array(100).fill(page.items[0]), next_cursor: "more" });
    };
    const table = await adminAt({ fetch: pages }).run`audit list`;
    expect(table.out.trimEnd().split("\n")).toHaveLength(101);
    expect(table.err).toBe(
      "These are the first 100: --limit reads more, and -o csv, json or yaml all of them.\n",
    );
  });

  it("prints what it has read, and fails, when a later page fails", async () => {
    let isFirst = true;
    const fetch: Terminal["fetch"] = async (...args) => {
      if (!isFirst) throw new TypeError("fetch failed");
      isFirst = false;
      return Response.json({
        ...(await (await globalThis.fetch(...args)).json()),
        next_cursor: "more",
      });
    };
    const { exitCode, out } = await adminAt({ fetch }).run`audit list -o json`;
    expect(exitCode).toBe(4);
    expect(() => JSON.parse(out)).toThrow();
  });

  it("takes durations by core's clock, and times in UTC", async () => {
    await clock.advance(7_200_000);
    await signIn();
    await admin.run`policies create late --prefix ${identityPrefix}`;
    // Of a machine whose clock is a month behind.
    const behind = adminAt({ clock: { ...clock, now: () => clock.now() - 2_592_000_000 } });
    const list = async (...args: string[]) => {
      const { exitCode, out, err } = await behind.run("audit", "list", "-o", "json", ...args);
      expect({ exitCode, err }).toEqual({ exitCode: 0, err: "" });
      return (JSON.parse(out) as { action: string }[]).map(({ action }) => action);
    };
    expect(await list("--since", "1h", "--action", "enrollment_policy.create")).toHaveLength(1);
    expect(await list("--until", "1h", "--action", "collector.enroll")).toHaveLength(5);
    const hourAgo = new Date(clock.now() - 3_600_000).toISOString();
    expect(await list("--since", hourAgo, "--action", "enrollment_policy.create")).toHaveLength(1);
    expect(
      await list("--since", hourAgo.replace("Z", "+00:00"), "--action", "collector.enroll"),
    ).toEqual([]);
    for (const wrong of ["yesterday-ish", "2026-11-22T10:00:00", "2026-02-30T10:00:00Z"])
      expect(await admin.run`audit list --since ${wrong}`).toEqual(
        failsWith(2, "2026-11-22T10:00:00Z"),
      );
  });
});

it("prints its version", async () => {
  expect(await admin.run("--version")).toEqual({
    exitCode: 0,
    out: `${packageJson.version}\n`,
    err: "",
  });
});

describe("times", () => {
  const zone = process.env.TZ;
  afterEach(() => {
    if (zone === undefined) delete process.env.TZ;
    else process.env.TZ = zone;
  });

  it.each(["UTC", "America/New_York", "Pacific/Chatham"])(
    "of a query are UTC, by core's clock, for an admin in %s",
    async (name) => {
      process.env.TZ = name;
      const sent: URL[] = [];
      const fetch: Terminal["fetch"] = (input, init) => {
        sent.push(new URL(new Request(input).url));
        return globalThis.fetch(input, init);
      };
      const at = { ...clock, now: () => clock.now() - 2_592_000_000 };
      await adminAt({ fetch, clock: at }).run`fleet list since:10:00 expires:today`;
      const now = new Date(clock.now());
      expect(sent.at(-1)?.searchParams.get("silent_since")).toBe(readTime("10:00", now));
      expect(sent.at(-1)?.searchParams.get("expires")).toBe(readRange("today", now));
    },
  );
});

describe("what repeats", () => {
  /** A clock whose sleeps each do the next of `steps`, and interrupt after the last. */
  const interruptedAfter = (...steps: (() => Promise<unknown>)[]) => {
    const stop = new AbortController();
    const slept: number[] = [];
    const sleep = async (ms: number) => {
      slept.push(ms);
      const step = steps.shift();
      if (step === undefined) stop.abort(new Error("SIGINT"));
      else await step();
      stop.signal.throwIfAborted();
    };
    return {
      terminal: {
        clock: { now: clock.now, monotonic: clock.monotonic, sleep },
        signal: stop.signal,
      },
      slept,
    };
  };

  it("fleet list --watch prints the hosts again until interrupted, and survives a restart of core", async () => {
    let isAway = false;
    const fetch: Terminal["fetch"] = (...args) =>
      isAway ? Promise.reject(new TypeError("fetch failed")) : globalThis.fetch(...args);
    const toggle = async () => {
      isAway = !isAway;
    };
    const { terminal, slept } = interruptedAfter(toggle, toggle);
    const { exitCode, out, err } = await adminAt({ ...terminal, fetch })
      .run`fleet list device:out-1 --watch --interval 5s`;
    expect(exitCode).toBe(130);
    expect(out.match(/out-1/g)).toHaveLength(2);
    expect(out.match(/^id/gm)).toHaveLength(2);
    expect(err).toMatch(/code unreachable, action retry\n$/);
    expect(slept).toEqual([5000, 5000, 5000]);
    isAway = true;
    const failed = await adminAt({ fetch }).run`fleet list --watch`;
    expect(failed).toMatchObject({ exitCode: 4, out: "" });
    expect(await admin.run`fleet list --watch --interval 0s`).toMatchObject({
      exitCode: 2,
    });
  });

  it.each(["csv", "json", "table"])(
    "audit list --follow prints each event once, below one header, as %s",
    async (format) => {
      const create = async () => {
        await clock.advance(1);
        await admin.run`policies create ${`followed ${clock.now()} ${format}`} --prefix
      ${identityPrefix}`;
      };
      await clock.advance(120_000);
      const { terminal } = interruptedAfter(create, create, async () => undefined);
      // Of a machine whose clock is an hour ahead.
      const ahead = { ...terminal.clock, now: () => clock.now() + 3_600_000 };
      const { exitCode, out } = await adminAt({ ...terminal, clock: ahead })
        .run`audit list --follow -o ${format}`;
      expect(exitCode).toBe(130);
      const lines = out.trimEnd().split(/\r?\n/);
      expect(lines.filter((line) => line.includes("enrollment_policy.create"))).toHaveLength(2);
      expect(lines).toHaveLength(format === "json" ? 2 : 3);
      if (format === "json")
        for (const line of lines) expect(JSON.parse(line)).toHaveProperty("occurred_at");
    },
  );
});

describe("exit codes", () => {
  it.each<[number, string, readonly string[], Record<string, string>]>([
    [0, "done", ["whoami"], {}],
    [1, "core refused", ["policies", "show", "01920000-0000-7000-8000-000000000000"], {}],
    [2, "the command line is not valid", ["fleet", "list", "--limit", "many"], {}],
    [2, "nobody can answer", ["configs", "assign", configId, "device:out-1"], {}],
    [3, "not signed in", ["whoami"], { SVC_ADMIN_TOKEN_FILE: "" }],
    [3, "the token is refused", ["whoami"], { SVC_ADMIN_TOKEN_FILE: join(home, "bad") }],
    [4, "no fleet answers", ["whoami"], { SVC_ADMIN_URL: "http://127.0.0.1:1" }],
  ])("%d: %s", async (exitCode, _, args, env) => {
    writeFileSync(join(home, "bad"), "not.a.token\n");
    const result = await adminAt({ env }).run(...args);
    expect(result).toMatchObject({ exitCode });
    expect(result.err === "").toBe(exitCode === 0);
  });

  it("5: some of several changes were refused", async () => {
    await admin.must`identities revoke ${hosts[4]?.identityId ?? ""} --yes`;
    const result = await admin.run`configs assign ${configId} device:out-4,out-5 --yes`;
    expect(result).toMatchObject({ exitCode: 5, out: expect.stringContaining("revoked") });
  });
});

it.each(["json", "yaml"] as const)(
  "writes %s without characters that command a terminal, and loses none of them",
  async (format) => {
    const record = {
      text: "\u001b[2J \u007f \u009b2J \u202e \u2028 é",
      plain: "\u009b2J",
      lines: "one\ntwo\n",
    };
    const texts: string[] = [];
    await printRecord({ out: { write: (text: string) => texts.push(text) } }, { format }, record);
    const text = texts.join("");
    expect(text).not.toMatch(/(?!\n)[\p{Cc}\p{Bidi_Control}\u2028]/u);
    expect(format === "json" ? JSON.parse(text) : parse(text)).toEqual(record);
  },
);

it("writes a line of JSON without characters that command a terminal", () => {
  expect(jsonLine({ text: "\u009b2J é" })).toBe('{"text":"\\u009b2J é"}\n');
});

it("writes CSV that commands neither a terminal nor a spreadsheet, and a table of more rows than a call has arguments", async () => {
  const print = async (format: "csv" | "table", rows: readonly string[]) => {
    let text = "";
    const columns = [{ text: (row: string) => row }];
    await printRows(
      { out: { write: (part: string) => (text += part) } },
      { format },
      columns,
      rows,
    );
    return text;
  };
  expect(await print("csv", ["\u009b2J", "\t=1", "＋1", "-1", "a\nb"])).toBe(
    'text\r\n\ufffd2J\r\n\ufffd=1\r\n\'＋1\r\n-1\r\n"a\nb"\r\n',
  );
  expect((await print("table", Array(200_000).fill("row"))).length).toBe(5 + 200_000 * 4);
});

it("lets no control characters of a config hide lines of it from a terminal, and writes every byte to a file", async () => {
  const yaml = `${testConfigYaml(300)}# \u001b[1A\u001b[2K\u009b2K\t\u202e\r\n`;
  const { body } = await web.core.admin.post("/v1/collector/configs", { yaml });
  const show = ["configs", "show", String(body.id)];
  const diff = ["configs", "diff", configId, String(body.id)];
  expect((await admin.run(...show)).out).toBe(yaml);
  const terminal = adminAt({ columns: 80 });
  for (const args of [show, diff])
    expect((await terminal.run(...args)).out).toContain("# \ufffd[1A\ufffd[2K\ufffd2K\t\ufffd\n");
});
