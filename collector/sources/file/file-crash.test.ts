import { spawn } from "node:child_process";
import { once } from "node:events";
import {
  appendFileSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { gzipSync } from "node:zlib";
import { expect, it } from "vitest";
import { lines } from "#tests/collector/support/file-source.ts";
import { newFolder } from "#tests/support/new-folder.ts";
import { openTestQueue, readAll, textsOf } from "#tests/support/queue.ts";

const tailer = join(import.meta.dirname, "../../../tests/slow/queue-crash/tailer.ts");

/** Resolves when the tailer reports that it stored `count` lines. */
const reaches = async (said: Readable, count: number) => {
  for await (const line of createInterface({ input: said })) if (Number(line) >= count) return;
  throw new Error("the tailer ended by itself");
};

it("Q1: neither loses nor repeats a line when it is killed with kill -9 while it reads, over rotations", async () => {
  const dir = newFolder();
  const log = join(dir, "app.log");
  const perRound = 12_000;
  const rounds = 3;
  for (let round = 0; round < rounds; round++) {
    const from = round * perRound;
    appendFileSync(log, `${lines(from + 1, from + perRound).join("\n")}\n`);
    const child = spawn(process.execPath, [tailer, dir], { stdio: ["ignore", "pipe", "inherit"] });
    // While it reads, except for the last round.
    await reaches(child.stdout, round === rounds - 1 ? rounds * perRound : from + perRound / 4);
    if (round === 1) renameSync(log, join(dir, "app.log.1"));
    child.kill("SIGKILL");
    await once(child, "exit");
  }
  const queue = openTestQueue(join(dir, "queue"));
  const texts = textsOf(readAll(queue));
  await queue.close();
  expect(texts).toHaveLength(rounds * perRound);
  expect(new Set(texts)).toEqual(new Set(lines(1, rounds * perRound)));
});

const time = "2026-11-30T07:00:00.000000001Z";

/** Returns lines as containerd writes them: those of stdout in two pieces, with one of stderr in between. */
const asCri = (texts: readonly string[]) =>
  texts
    .map(
      (text) => `${time} stdout P ${text}\n${time} stderr F ${text} err\n${time} stdout F  out\n`,
    )
    .join("");

const asDocker = (texts: readonly string[]) =>
  texts
    .flatMap((text) => [
      { log: text, stream: "stdout", time },
      { log: `${text} err\n`, stream: "stderr", time },
      { log: " out\n", stream: "stdout", time },
    ])
    .map((line) => `${JSON.stringify(line)}\n`)
    .join("");

it("Q1: neither loses nor repeats a line of pods when it is killed with kill -9, over the kubelet's rotations and deletions", async () => {
  const dir = newFolder();
  const perRound = 4_000;
  const linesOf = (pod: string, round: number) =>
    lines(round * perRound + 1, (round + 1) * perRound).map((line) => `${pod} ${line}`);
  const web = join(dir, "pods/shop_web-7d9f_0d6a6f6e-8f5d-4c38-9d1a-2f0f5f3f0a11/nginx");
  const job = join(dir, "pods/shop_job-x2x4x_7c1f6f6e-8f5d-4c38-9d1a-2f0f5f3f0a12/main");
  const json = join(dir, "docker/containers/4f1d/4f1d-json.log");
  for (const folder of [web, job, dirname(json)]) mkdirSync(folder, { recursive: true });
  symlinkSync(json, join(job, "0.log"));
  const written: string[] = [];
  for (const round of [0, 1, 2]) {
    appendFileSync(join(web, "0.log"), asCri(linesOf("web", round)));
    appendFileSync(json, asDocker(linesOf("job", round)));
    for (const pod of ["web", "job"])
      written.push(...linesOf(pod, round).flatMap((text) => [`${text} out`, `${text} err`]));
    const child = spawn(process.execPath, [tailer, dir, "containers"], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    await reaches(child.stdout, written.length - 3.5 * perRound);
    // The collector reads open files to their end, though the pod is deleted.
    if (round === 2) rmSync(dirname(job), { recursive: true });
    if (round === 2) rmSync(dirname(json), { recursive: true });
    if (round === 2) await reaches(child.stdout, written.length);
    child.kill("SIGKILL");
    await once(child, "exit");
    if (round === 0) renameSync(join(web, "0.log"), join(web, "0.log.20261130-070000"));
    if (round === 1) {
      const rotated = join(web, "0.log.20261130-070000");
      const packed = gzipSync(readFileSync(rotated));
      writeFileSync(`${rotated}.gz`, packed);
      // A file that the kubelet has compressed in part.
      writeFileSync(join(web, "0.log.20261130-060000.tmp"), packed.subarray(0, packed.length / 2));
      rmSync(rotated);
      renameSync(join(web, "0.log"), join(web, "0.log.20261130-080000"));
    }
  }
  const queue = openTestQueue(join(dir, "queue"));
  const records = readAll(queue);
  await queue.close();
  const texts = textsOf(records);
  expect(texts).toHaveLength(written.length);
  expect(new Set(texts)).toEqual(new Set(written));
  const pods = records.map(({ attributes }) => attributes["k8s.pod.name"]?.slice(0, 3));
  expect(pods).toEqual(texts.map((text) => text.slice(0, 3)));
});
