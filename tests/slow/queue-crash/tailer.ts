import { join } from "node:path";
import { createMounts } from "#collector/files/mounts.ts";
import { createFileSource } from "#collector/sources/file/file-source.ts";
import { createSourceFiles } from "#collector/sources/file/source-files.ts";
import { systemClock } from "#kit/clock.ts";
import { createTestLog } from "#tests/fakes/log.ts";
import { openTestQueue } from "#tests/support/queue.ts";

// The program of the tailing tests: follows `<dir>/*.log` into `<dir>/queue` and reports its last sequence, until it is killed.
const dir = process.argv[2] ?? "";
const queue = openTestQueue(join(dir, "queue"), { maxDiskUsageBytes: 1_000_000_000 });
const { append, checkpoints } = queue;
const { refused } = queue.accounts;
const source = createFileSource(
  { include: [join(dir, "*.log")], exclude: [], startAt: "beginning", rules: { neverRead: [] } },
  {
    append,
    refused,
    checkpoints,
    clock: systemClock,
    log: createTestLog(),
    files: createSourceFiles(createMounts(systemClock)),
  },
);
setInterval(() => console.log(queue.lastSequence), 5);
await source.start();
