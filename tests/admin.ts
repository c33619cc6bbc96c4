import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { runAdmin } from "../admin/run-admin.ts";
import type { Terminal } from "../admin/terminal/terminal.ts";
import { systemClock } from "../kit/clock.ts";
import { systemEntropy } from "../kit/entropy.ts";

/** The result of one command line of svc-admin. */
export interface AdminResult {
  exitCode: number;
  out: string;
  err: string;
}

/** A person at a terminal with a home directory of its own. */
export interface AdminUser {
  /** Runs one command line in this process. */
  run(...args: string[]): Promise<AdminResult>;
  home: string;
  close(): void;
}

/** Creates a person at a terminal. `openBrowser` receives what svc-admin would open; `terminal` replaces other parts. */
export const createAdminUser = (terminal: Partial<Terminal> & { shown?: (text: string) => void } = {}): AdminUser => {
  const home = mkdtempSync(join(tmpdir(), "svc-admin-"));
  return {
    home,
    run: async (...args) => {
      const written = { out: "", err: "" };
      const exitCode = await runAdmin(args, {
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
          },
        },
        err: {
          write: (text) => {
            written.err += text;
            terminal.shown?.(text);
          },
        },
      });
      return { exitCode, ...written };
    },
    close: () => rmSync(home, { recursive: true }),
  };
};
