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

/**
 * Creates a person at a terminal of `columns`, or in a script. `openBrowser` receives what svc-admin would open; `shown` receives stderr,
 * `printed` stdout; the other members replace parts of the terminal.
 */
export const createAdminUser = (
  terminal: Partial<Terminal> & { columns?: number; shown?: (text: string) => void; printed?: () => void } = {},
): AdminUser => {
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
            terminal.printed?.();
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
    },
    close: () => rmSync(home, { recursive: true }),
  };
};
