import { writeFileSync } from "node:fs";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createTestFiles } from "#tests/collector/support/file-source.ts";
import { createMemoryTail, type MemoryTailOptions } from "#tests/collector/support/memory-tail.ts";
import { textsOf } from "#tests/support/queue.ts";

const path = "/var/log/pods/shop_web-7d9f_0d6a6f6e-8f5d-4c38-9d1a-2f0f5f3f0a11/nginx/3.log";
const streams = ["stdout", "stderr"] as const;
type Streams = Record<(typeof streams)[number], string[]>;
const createContainerTail = (options: MemoryTailOptions = {}) =>
  createMemoryTail({ preset: "containers", path, ...options });

const at = (second: number) => `2026-11-30T07:00:${`${second}`.padStart(2, "0")}.000000001Z`;
const cri = (text: string, { stream = "stdout", tag = "F", second = 0 } = {}) =>
  `${at(second)} ${stream} ${tag} ${text}\n`;
const docker = (log: string, stream = "stdout") =>
  `${JSON.stringify({ log, stream, time: at(0) })}\n`;

describe("the log of a container", () => {
  it("is read as CRI writes it, with pod, stream and time", async () => {
    const tail = await createContainerTail();
    await tail.write(cri("GET /\r", { second: 1 }) + cri("", { stream: "stderr", tag: "F:x" }));
    expect(tail.records.map(({ attributes }) => attributes)).toMatchObject([
      {
        "file.path": path,
        "file.offset": "0",
        "k8s.namespace.name": "shop",
        "k8s.pod.name": "web-7d9f",
        "k8s.pod.uid": "0d6a6f6e-8f5d-4c38-9d1a-2f0f5f3f0a11",
        "k8s.container.name": "nginx",
        "k8s.container.restart_count": "3",
        "log.iostream": "stdout",
        "container.timestamp": at(1),
      },
      { "log.iostream": "stderr", "container.timestamp": at(0) },
    ]);
    tail.expectTexts("GET /", "");
  });

  it("is read as Docker writes it, with pieces joined", async () => {
    const tail = await createContainerTail();
    await tail.write(docker('said "hä\\n') + docker(" and more\n") + docker("warn\r\n", "stderr"));
    tail.expectTexts('said "hä\\n and more', "warn");
    expect(tail.records[1]?.attributes).toMatchObject({
      "log.iostream": "stderr",
      "container.timestamp": at(0),
    });
  });

  it.each([
    "no format at all",
    '{"log": 7, "stream": "stdout"}',
    '{"log": "x\\n", "stream": "../stdin", "time": "2026-11-30T07:00:00Z"}',
    "2026-11-30T07:00:00Z stdin F text",
    "{".repeat(500),
  ])("keeps a line in no format as it stands, and counts it (%#)", async (line) => {
    const tail = await createContainerTail();
    await tail.write(`${cri("before")}${line}\n${cri("after")}`);
    tail.expectTexts("before", line, "after");
    expect(tail.records[1]?.attributes["log.iostream"]).toBeUndefined();
    expect(tail.unparsed()).toBe(1);
  });

  it.each([
    "/var/log/pods/shop_.._0d6a/nginx/0.log",
    "/var/log/pods/shop_web%2f..%2fetc_0d6a/nginx/0.log",
    "/var/log/pods/shop_Web_0d6a/nginx/0.log",
    "/var/log/pods/shop_web_0d6a/nginx/x.log",
    `/var/log/pods/shop_${"a.".repeat(130)}a_0d6a/nginx/0.log`,
    "/var/log/app.log",
  ])("has no pod by a path that the kubelet does not make (%#)", async (other) => {
    const tail = await createContainerTail({ path: other });
    await tail.write(cri("text"));
    expect(Object.keys(tail.records[0]?.attributes ?? {}).join()).not.toContain("k8s");
    tail.expectTexts("text");
  });

  it("stores pieces whose end does not come after the partial time, marked", async () => {
    const tail = await createContainerTail();
    await tail.write(cri("ab", { tag: "P" }) + cri("other", { stream: "stderr" }));
    await tail.wait(4_900);
    tail.expectTexts("other");
    await tail.wait(200);
    tail.kill();
    await tail.write(cri("cd", { tag: "P" }) + cri("ef") + cri("next"));
    tail.expectTexts("other", "ab", "cdef", "next");
    expect(tail.parts()).toEqual([
      [undefined, undefined],
      ["1", "true"],
      ["2", undefined],
      [undefined, undefined],
    ]);
  });

  it("does not wait for a stream that is silent while the other one writes", async () => {
    const multiline = { startPattern: "^[^ ]", maxLines: 500, timeoutMs: 1_000 };
    const tail = await createContainerTail({ multiline });
    await tail.write(cri("error") + cri(" at a") + cri("1", { stream: "stderr", second: 0 }));
    await tail.write(cri("2", { stream: "stderr", second: 1 }));
    tail.expectTexts("error\n at a", "1");
    await tail.write(cri("half", { tag: "P", second: 2 }));
    await tail.write(
      [3, 5, 7].map((second) => cri(`${second}`, { stream: "stderr", second })).join(""),
    );
    expect(tail.texts().slice(2)).toEqual(["2", "half", "3", "5"]);
    expect(tail.parts()[3]).toEqual(["1", "true"]);
  });

  it("keeps the order of the file, however many records a batch has", async () => {
    const files = createTestFiles();
    const written = Array.from({ length: 5_000 }, (_, index) =>
      cri(`${index}`, { stream: index % 2 ? "stdout" : "stderr" }),
    );
    writeFileSync(files.log(), written.join(""));
    await files.start({ preset: "containers" });
    await files.expectTexts(written.map((_, index) => `${index}`));
    await files.end();
  });

  it("numbers the pieces of a record of too many lines, over a kill", async () => {
    const multiline = { startPattern: "^[^ ]", maxLines: 2, timeoutMs: 1_000 };
    const tail = await createContainerTail({ multiline });
    await tail.write(
      ["one", " 2", " 3", " 4", " 5", "two", " 2"].map((text) => cri(text)).join(""),
    );
    tail.kill();
    await tail.read();
    await tail.finish();
    tail.expectTexts("one\n 2", " 3\n 4", " 5", "two\n 2");
    expect(tail.parts()).toEqual([
      ["1", "true"],
      ["2", "true"],
      ["3", undefined],
      [undefined, undefined],
    ]);
  });

  it("stores a torn line after the partial time, as it stands", async () => {
    const tail = await createContainerTail();
    await tail.write(cri("whole") + cri("torn").slice(0, -3));
    await tail.wait(5_100);
    tail.expectTexts("whole", cri("torn").slice(0, -3));
    await tail.write(`rn\n${cri("next")}`);
    expect(tail.texts().slice(2)).toEqual(["rn", "next"]);
    expect(tail.parts()).toEqual([
      [undefined, undefined],
      ["1", "true"],
      ["2", undefined],
      [undefined, undefined],
    ]);
  });

  it("cuts a record of pieces that never ends, and keeps the others whole", async () => {
    const tail = await createContainerTail({ bufferBytes: 4096 });
    const piece = "x".repeat(16_384);
    const mixed = Array.from(
      { length: 200 },
      (_, index) => cri(piece, { tag: "P" }) + cri(`${index}`, { stream: "stderr" }),
    );
    for (let from = 0; from < mixed.length; from += 20)
      await tail.write(mixed.slice(from, from + 20).join(""));
    await tail.write(cri("end"));
    await tail.finish();
    const of = (stream: string) =>
      tail.records.filter(({ attributes }) => attributes["log.iostream"] === stream);
    expect(of("stderr").map(({ payload }) => `${Buffer.from(payload)}`)).toEqual(
      Array.from({ length: 200 }, (_, index) => `${index}`),
    );
    const pieces = of("stdout");
    expect(pieces.map(({ attributes }) => attributes["file.part"])).toEqual(
      pieces.map((_, index) => `${index + 1}`),
    );
    expect(pieces.map(({ payload }) => `${Buffer.from(payload)}`).join("")).toBe(
      `${piece.repeat(200)}end`,
    );
    expect(pieces.every(({ payload }) => payload.length <= 1024 * 1024)).toBe(true);
  });

  it("stores a line of more than 1 MiB in pieces, as it stands", async () => {
    const tail = await createContainerTail();
    const long = cri("y".repeat(1_500_000));
    await tail.write(cri("ab", { tag: "P", stream: "stderr" }) + long + cri("next"));
    await tail.finish();
    expect(tail.texts()[0]).toBe("ab");
    expect(tail.texts().slice(1, 3).join("")).toBe(long.slice(0, -1));
    expect(tail.texts().slice(3)).toEqual(["next"]);
  });

  it("Q1: has each line once and each record whole, however its streams are mixed and whenever it is killed", async () => {
    const line = fc.record({
      stream: fc.constantFrom(...streams),
      pieces: fc.array(fc.integer({ min: 0, max: 900 }), { minLength: 1, maxLength: 4 }),
      isDocker: fc.boolean(),
    });
    const property = fc.asyncProperty(
      fc.array(line, { maxLength: 60 }),
      fc.array(fc.nat(1), { maxLength: 200 }),
      fc.array(fc.nat(4000), { maxLength: 8 }),
      fc.boolean(),
      async (written, order, cuts, joins) => {
        const queues: Streams = { stdout: [], stderr: [] };
        const texts: Streams = { stdout: [], stderr: [] };
        for (const [index, { stream, pieces, isDocker }] of written.entries()) {
          const parts = pieces.map((length) => `${index}:`.padEnd(length, "z"));
          texts[stream].push(parts.join(""));
          for (const [at, part] of parts.entries()) {
            const isEnd = at === parts.length - 1;
            queues[stream].push(
              isDocker
                ? docker(isEnd ? `${part}\n` : part, stream)
                : cri(part, { stream, tag: isEnd ? "F" : "P" }),
            );
          }
        }
        let content = "";
        for (const pick of order) content += queues[pick ? "stderr" : "stdout"].shift() ?? "";
        content += [...queues.stdout, ...queues.stderr].join("");
        const multiline = { startPattern: "^[0-9]*[02468]:", maxLines: 500, timeoutMs: 1_000 };
        const tail = await createContainerTail({
          bufferBytes: 2048,
          ...(joins ? { multiline } : {}),
        });
        for (let rest = content; rest !== ""; ) {
          const length = 1 + (cuts.pop() ?? rest.length);
          await tail.write(rest.slice(0, length));
          tail.kill();
          rest = rest.slice(length);
        }
        await tail.read();
        await tail.finish();
        for (const stream of streams) {
          const records = tail.records.filter(
            ({ attributes }) => attributes["log.iostream"] === stream,
          );
          const found = textsOf(records);
          const expected = texts[stream];
          expect(found).toEqual(joins ? joinedFrom(expected) : expected);
          const offsets = records.map(({ attributes }) => Number(attributes["file.offset"]));
          expect(offsets).toEqual(offsets.toSorted((a, b) => a - b));
        }
        expect(tail.unparsed()).toBe(0);
      },
    );
    await fc.assert(property, { numRuns: 150 });
  });
});

/** Joins lines before those with an even number. */
const joinedFrom = (lines: readonly string[]) => {
  const records: string[] = [];
  for (const line of lines) {
    const isFirst = /^\d*[02468]:/.test(line) || records.length === 0;
    if (isFirst) records.push(line);
    else records.push(`${records.pop()}\n${line}`);
  }
  return records;
};
