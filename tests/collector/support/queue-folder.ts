import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach } from "vitest";
import type { Queue, QueueOptions } from "#collector/queue/queue.ts";
import { newFolder } from "#tests/support/new-folder.ts";
import { openTestQueue } from "#tests/support/queue.ts";

/**
 * Gives each test of a file a folder for its queues, and closes them at its end. `open` opens one with what `defaults` returns; it receives
 * how many the test has opened. `dirOf` returns the directory of a queue.
 */
export const setUpQueues = (defaults: (opened: number) => Partial<QueueOptions> = () => ({})) => {
  let folder = "";
  const opened: Queue[] = [];
  const dirOf = (name = "queue"): string => join(folder, name);
  beforeEach(() => {
    folder = newFolder();
    mkdirSync(dirOf());
  });
  afterEach(async () => {
    for (const queue of opened.splice(0)) await queue.close();
  });
  const open = (options: Partial<QueueOptions> = {}, name?: string): Queue => {
    const queue = openTestQueue(dirOf(name), { ...defaults(opened.length), ...options });
    opened.push(queue);
    return queue;
  };
  return { dirOf, open };
};
