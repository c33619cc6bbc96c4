import { mkdir } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser } from "playwright-core";
import { oneAtATime } from "../one-at-a-time.ts";

const temporary = tmpdir();
/** This user's: the package takes what it finds in the folder for temporary files, whoever owns it, and also while it is still unpacked. */
const folder = join(temporary, `svc-browser-${process.getuid?.() ?? "user"}`);

/** Returns the program's path. */
const unpackBrowser = async (): Promise<string> => {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  return oneAtATime(join(folder, "lock"), async () => {
    // Read by the package when it is imported: unpack what a bare Amazon Linux 2023 lacks, which is what a bare Debian lacks.
    process.env.AWS_LAMBDA_JS_RUNTIME ??= "nodejs22.x";
    process.env.TMPDIR = folder;
    try {
      const { default: chromium } = await import("@sparticuz/chromium");
      return await chromium.executablePath();
    } finally {
      process.env.TMPDIR = temporary;
    }
  });
};

/**
 * A Chromium without a window, from npm alone; close it when done. It unpacks its shared libraries too, so it starts on a machine that
 * has none of what a desktop has.
 */
export const launchBrowser = async (): Promise<Browser> => {
  const { chromium: driver } = await import("playwright-core");
  return driver.launch({
    executablePath: await unpackBrowser(),
    timeout: 90_000,
    // The package's own arguments are for functions that live for a second: one process for all, and no web security.
    args: ["--no-sandbox", "--disable-gpu", "--font-render-hinting=none"],
    headless: true,
    env: { ...process.env } as Record<string, string>,
  });
};
