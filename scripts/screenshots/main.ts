/**
 * `bun run screenshots [-- NAME…]`: writes the pictures in `docs/images/`, or those whose names begin so, of the built user interface
 * with a fleet and a time that are the same in each run. Pictures differ between machines in their fonts.
 */
import { generateKeyPairSync } from "node:crypto";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Page } from "playwright-core";
import { chainAuditEvents } from "#functions/domain/audit/chain-events.ts";
import { verifyChain } from "#functions/domain/audit/verify-chain.ts";
import type { Chat } from "#functions/domain/chat/chat.ts";
import { createReceiptSigner } from "#functions/domain/chat/receipt-signer.ts";
import { readFleetRules } from "#functions/domain/fleet/rules.ts";
import { fleetThresholds } from "#functions/domain/fleet/thresholds.ts";
import { createMockInference } from "#functions/inference/create-mock-inference.ts";
import { systemClock } from "#kit/clock.ts";
import { launchBrowser } from "../lab/browser.ts";
import { buildUi } from "../lab/built-ui.ts";
import { createInProcessCore } from "../lab/in-process-core.ts";
import { openWeb } from "../lab/in-process-web.ts";
import { seedPeople } from "../lab/people.ts";
import { seedEnrollment } from "../lab/seed-enrollment.ts";
import { seededRolloutId, seedRollouts } from "../lab/seed-rollouts.ts";
import { type VisitOptions, visitPage } from "../lab/visit-page.ts";
import { type EmbeddedDatabase, openEmbeddedDatabase } from "../postgres/embedded-database.ts";
import { type PicturedFleet, pictureFleet } from "./fleet.ts";

const folder = fileURLToPath(new URL("../../docs/images/", import.meta.url));
const bytesMax = 200 * 1024;

interface Picture {
  name: string;
  path: string;
  viewport: VisitOptions;
  /** Text that the complete page shows. */
  ready: string;
  /** Brings the opened page into the state to show. */
  enter?: (page: Page) => Promise<unknown>;
  /** When core becomes unavailable. */
  fault?: "from the start" | "later";
}

const light = { width: 1440, scheme: "light" } as const;
const dark = { width: 1440, scheme: "dark" } as const;

/** Asks a question, and opens its query. */
const askInChat = async (page: Page): Promise<void> => {
  await page.getByRole("button", { name: "Which hosts need attention, and why?" }).click();
  await page.locator(".receipt > summary", { hasText: "Verified" }).waitFor();
  await page.locator(".tool-call > summary").last().click();
};

/** Returns the picture in light and, as `<name>-dark`, in dark. */
const inBoth = (picture: Picture): Picture[] => [
  picture,
  { ...picture, name: `${picture.name}-dark`, viewport: { ...picture.viewport, scheme: "dark" } },
];

const fleetPictures: readonly Picture[] = [
  {
    name: "fleet-light",
    path: "/fleet?sort=certificate_not_after",
    viewport: { ...light, height: 800 },
    ready: "heartbeating",
  },
  {
    name: "fleet-dark",
    path: "/fleet?sort=queue_bytes&order=desc",
    viewport: { ...dark, height: 800 },
    ready: "heartbeating",
  },
  {
    name: "fleet-390-light",
    path: "/fleet",
    viewport: { ...light, width: 390, height: 1400 },
    ready: "heartbeating",
  },
  {
    name: "fleet-320-dark",
    path: "/fleet",
    viewport: { ...dark, width: 320, height: 1400 },
    ready: "heartbeating",
  },
];

const chatPictures: readonly Picture[] = [
  ...inBoth({
    name: "chat",
    path: "/fleet?chat=new",
    viewport: { ...light, width: 1280, height: 800 },
    ready: "Ask about hosts",
    enter: askInChat,
  }),
  {
    name: "chat-390-light",
    path: "/fleet?chat=new",
    viewport: { ...light, width: 390, height: 1000 },
    ready: "Ask about hosts",
    enter: askInChat,
  },
  {
    name: "chat-320-dark",
    path: "/fleet?chat=new",
    viewport: { ...dark, width: 320, height: 1000 },
    ready: "Ask about hosts",
    enter: askInChat,
  },
];

const rolloutPictures: readonly Picture[] = [
  ...inBoth({
    name: "rollouts",
    path: "/rollouts",
    viewport: { ...light, height: 640 },
    ready: "Rolled back",
  }),
  ...inBoth({
    name: "rollout",
    path: `/rollouts/${seededRolloutId("paused")}?wave=2`,
    viewport: { ...light, height: 1300 },
    ready: "started wave 2",
  }),
  {
    name: "rollout-320-dark",
    path: `/rollouts/${seededRolloutId("paused")}?wave=2`,
    viewport: { ...dark, width: 320, height: 1800 },
    ready: "started wave 2",
  },
];

const picturesOf = ({ identityId }: PicturedFleet): Picture[] => [
  ...inBoth({
    name: "fleet-drawer",
    path: `/fleet?drift=on_last_known_good&id=${identityId}`,
    viewport: { ...light, width: 1100, height: 1060 },
    ready: "Config assigned",
  }),
  ...inBoth({
    name: "fleet-error",
    path: "/fleet",
    viewport: { ...light, height: 720 },
    ready: "could not be loaded",
    fault: "from the start",
  }),
  ...inBoth({
    name: "fleet-stale",
    path: "/fleet?state=stale",
    viewport: { ...light, height: 720 },
    ready: "heartbeating",
    fault: "later",
  }),
  ...inBoth({ name: "home", path: "/", viewport: light, ready: "enrolled" }),
  ...inBoth({
    name: "audit",
    path: "/audit?action=config.assign",
    viewport: light,
    ready: "verified up to",
  }),
  {
    name: "audit-390-light",
    path: "/audit?within_seconds=3600",
    viewport: { ...light, width: 390, height: 1400 },
    ready: "verified up to",
  },
  ...inBoth({
    name: "host",
    path: `/hosts/${identityId}`,
    viewport: { ...light, height: 1200 },
    ready: "assigned the config",
  }),
  {
    name: "host-390-light",
    path: `/hosts/${identityId}`,
    viewport: { ...light, width: 390, height: 1400 },
    ready: "assigned the config",
  },
];

const recordPictures = ({ configId }: PicturedFleet): Picture[] => [
  ...inBoth({
    name: "configs",
    path: "/configs",
    viewport: { ...light, height: 560 },
    ready: "never published",
  }),
  ...inBoth({
    name: "config",
    path: `/configs/${configId}`,
    viewport: { ...light, height: 1200 },
    ready: "Assignment history",
  }),
  ...inBoth({
    name: "enrollment",
    path: "/enrollment",
    viewport: { ...light, height: 1200 },
    ready: "Refused in the last day",
  }),
  ...[
    { name: "configs-390-light", path: "/configs", ready: "never published" },
    { name: "config-390-light", path: `/configs/${configId}`, ready: "Assignment history" },
    { name: "enrollment-390-light", path: "/enrollment", ready: "Refused in the last day" },
  ].map((picture) => ({ ...picture, viewport: { ...light, width: 390, height: 1400 } })),
];

const unavailable = {
  status: 503,
  contentType: "application/problem+json",
  json: {
    type: "urn:svc:problem:service_unavailable",
    title: "The service is unavailable",
    status: 503,
    detail: "Core does not answer",
    code: "service_unavailable",
    action: "retry",
    request_id: "01920000-0000-7000-8000-0000000000e5",
  },
};

const emptyPictures: Picture[] = [
  ...inBoth({
    name: "fleet-empty",
    path: "/fleet",
    viewport: light,
    ready: "No host is enrolled yet",
  }),
  ...inBoth({
    name: "login",
    path: "/login?reason=signed_out",
    viewport: { width: 720, height: 480, scheme: "light" },
    ready: "Sign in with",
  }),
];

const now = Date.UTC(2026, 0, 15, 12);

/** Opens a core with the chat agent, whose model is a mock, and web in front of it. */
const openStage = async (database: EmbeddedDatabase, cleanup: AsyncDisposableStack) => {
  await seedPeople(database.db, now);
  const core = createInProcessCore({
    db: database.db,
    clock: { ...systemClock, now: () => now },
    env: { SVC_COLLECTOR_MIN_VERSION: "1.4.0" },
  });
  const { createChatSql } = await import("#functions/chat-sql/create-chat-sql.ts");
  const { sql, offReason } = await createChatSql({
    db: database.db,
    locate: async () => database.url,
    url: null,
    secret: core.config.authTokenSecret.reveal(),
    thresholds: fleetThresholds(core.config),
    readRules: () => readFleetRules(core),
    revokePublic: false,
  });
  cleanup.defer(() => sql?.close());
  const { privateKey } = generateKeyPairSync("ed25519");
  const pem = privateKey.export({ type: "pkcs8", format: "pem" }).toString();
  const chat: Chat = {
    inference: createMockInference("mock"),
    sql,
    sqlOffReason: offReason,
    signer: await createReceiptSigner({ pem, id: "receipts-2026" }),
    stopping: new AbortController().signal,
  };
  const web = await openWeb({ ...core, chat }, { url: database.url, ui: await buildUi() });
  cleanup.defer(() => web.close());
  return { core, web };
};

const take = async (
  stage: Parameters<typeof visitPage>[0],
  { name, path, viewport, ready, fault, enter }: Picture,
): Promise<void> => {
  const { page } = await visitPage(stage, "auditor", path, { ...viewport, now });
  const fail = () => page.route("**/api/core/collector/**", (route) => route.fulfill(unavailable));
  if (fault === "from the start") {
    await fail();
    await page.reload();
  }
  await page.getByText(ready).first().waitFor();
  await enter?.(page);
  if (fault === "later") {
    await fail();
    await page.getByRole("button", { name: "Refresh" }).click();
    await page.getByText("These rows are old").waitFor();
  }
  await page.waitForLoadState("networkidle");
  const picture = await page.screenshot({ animations: "disabled", caret: "hide" });
  await page.context().close();
  if (picture.length > bytesMax) throw new Error(`${name}.png has ${picture.length} bytes`);
  await writeFile(join(folder, `${name}.png`), picture);
  process.stdout.write(`docs/images/${name}.png: ${Math.round(picture.length / 1024)} KiB\n`);
};

const takePictures = async (wanted: readonly string[]): Promise<void> => {
  await using cleanup = new AsyncDisposableStack();
  const database = cleanup.use(await openEmbeddedDatabase());
  const browser = cleanup.adopt(await launchBrowser(), (opened) => opened.close());
  const { core, web } = await openStage(database, cleanup);
  await mkdir(folder, { recursive: true });
  const takeAll = async (pictures: readonly Picture[]): Promise<void> => {
    for (const picture of pictures)
      if (wanted.length === 0 || wanted.some((start) => picture.name.startsWith(start)))
        await take({ browser, web }, picture);
  };
  await takeAll(emptyPictures);
  const fleet = await pictureFleet(database, 312);
  if (fleet.now !== now) throw new Error("the fleet has another timestamp");
  await seedEnrollment(database.db, new Date(now));
  await seedRollouts(database.db, { now: new Date(now), entropy: core.entropy });
  await chainAuditEvents(core);
  // Returns undefined once all events are verified.
  while (await verifyChain(core));
  await takeAll([...fleetPictures, ...picturesOf(fleet)]);
  await takeAll([...chatPictures, ...rolloutPictures, ...recordPictures(fleet)]);
};

await takePictures(process.argv.slice(2));
