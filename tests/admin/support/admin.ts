import { readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect } from "vitest";
import type { runAdmin } from "#admin/run-admin.ts";
import type { Terminal } from "#admin/terminal/terminal.ts";
import { systemClock } from "#kit/clock.ts";
import { systemEntropy } from "#kit/entropy.ts";
import type { PersonName } from "#scripts/lab/people.ts";
import { newFolder } from "#tests/support/new-folder.ts";
import { programFile } from "#tests/support/program.ts";
import { type TestWebOptions, useTestWeb } from "#tests/support/web.ts";

/** Loads `runAdmin` of the bundle that ships: what a bundle breaks, such as the names of a package, the sources do not show. */
const loadRunAdmin = async (): Promise<typeof runAdmin> => {
  const folder = dirname(programFile("admin/main.ts"));
  const [chunk] =
    /run-admin-\w+\.mjs/.exec(readFileSync(join(folder, "program.mjs"), "utf8")) ?? [];
  return (await import(join(folder, chunk ?? ""))).runAdmin;
};

/** A command line: its words, or as one types it, where each value is within one word. */
export type CommandLine = readonly [first?: string | TemplateStringsArray, ...rest: string[]];

/** Returns the words of a command line. */
export const wordsOf = ([first, ...rest]: CommandLine): string[] => {
  if (first === undefined) return [];
  if (typeof first === "string") return [first, ...rest];
  const line = String.raw(first, ...rest.keys().map((index) => `⟨${index}⟩`));
  const words = line.split(/\s+/).filter((word) => word !== "");
  return words.map((word) => word.replace(/⟨(\d+)⟩/g, (_, index) => rest[index] ?? ""));
};

/** What a command returns that fails with this exit code and names this. */
export const failsWith = (exitCode: number, named: string) =>
  expect.objectContaining({ exitCode, err: expect.stringContaining(named) });

/** A person at a terminal with a home directory of its own. */
export type AdminUser = ReturnType<typeof createAdminUser>;

/**
 * Creates a person at a terminal of `columns`, or in a script. `openBrowser` receives what svc-admin would open; `shown` receives stderr,
 * `printed` stdout; the other members replace parts of the terminal.
 */
export const createAdminUser = (
  terminal: Partial<Terminal> & {
    columns?: number;
    shown?: (text: string) => void;
    printed?: (text: string) => void;
  } = {},
) => {
  const home = newFolder();
  /** Runs one command line in this process, by the code of the bundle. */
  const run = async (...line: CommandLine) => {
    const written = { out: "", err: "" };
    const runLoaded = await loadRunAdmin();
    const exitCode = await runLoaded(wordsOf(line), {
      clock: systemClock,
      entropy: systemEntropy,
      fetch: globalThis.fetch,
      signal: new AbortController().signal,
      hostname: "lovelace",
      isInteractive: false,
      ask: async () => "no",
      openBrowser: () => undefined,
      ...terminal,
      env: { HOME: home, ...terminal.env },
      out: {
        write: (text) => {
          written.out += text;
          terminal.printed?.(text);
        },
        columns: terminal.columns,
      },
      err: {
        write: (text) => {
          written.err += text;
          terminal.shown?.(text);
        },
      },
    });
    return { exitCode, ...written };
  };
  /** Runs a command that must succeed, and returns what it printed. */
  const must = async (...line: CommandLine) => {
    const args = wordsOf(line);
    const { exitCode, out, err } = await run(...args);
    expect({ args, exitCode, err: exitCode === 0 ? "" : err }).toEqual({
      args,
      exitCode: 0,
      err: "",
    });
    return out;
  };
  /** Does so, and returns its JSON. */
  const json = async (...line: CommandLine) =>
    JSON.parse(await must(...wordsOf(line), "-o", "json"));
  return { home, run, must, json };
};

/**
 * Starts web and core, and signs an admin in there by a token in a file; everything ends with the tests of the file. `adminAt` creates a
 * person as `createAdminUser` does, who is signed in; `signIn` replaces the token, which lives for minutes of core's clock.
 */
export const startTestAdmin = async (options?: TestWebOptions) => {
  const web = await useTestWeb(options);
  const home = newFolder();
  const tokenFile = join(home, "token");
  const signIn = async (person: PersonName = "admin") =>
    writeFileSync(tokenFile, await web.core.bridgeToken(person));
  const adminAt = ({ env, ...terminal }: Parameters<typeof createAdminUser>[0] = {}) => {
    const signedIn = { SVC_ADMIN_URL: web.origin, SVC_ADMIN_TOKEN_FILE: tokenFile };
    return createAdminUser({ ...terminal, env: { ...signedIn, ...env } });
  };
  await signIn();
  return { web, home, tokenFile, signIn, adminAt };
};
