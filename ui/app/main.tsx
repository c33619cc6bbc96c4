import { Router } from "@solidjs/router";
import type { Component } from "solid-js";
import { render } from "solid-js/web";
import { createApiClient, createFetchAhead } from "./api/api-client.ts";
import { presentAddress } from "./browser/places.ts";
import { lazyPart } from "./design/report-parts.tsx";
import { PageContextProvider } from "./session/page-context.tsx";
import { RequiresScope } from "./session/session-gate.tsx";
import { createPageTitle } from "./shell/page-title.ts";
import { NoSuchPage, Shell } from "./shell/shell.tsx";

/** Returns the component of a route, whose page is loaded on demand. */
const lazyRoute = (load: () => Promise<Component>): Component => lazyPart("The page", load);

/**
 * Returns the component of a route for operators with scope `audit`; others see which scope is missing. The page sets a title of its own
 * once it is loaded.
 */
const auditRoute = (title: string, load: () => Promise<Component>): Component => {
  const Page = lazyRoute(load);
  return () => {
    createPageTitle(() => title);
    return (
      <RequiresScope scope="audit">
        <Page />
      </RequiresScope>
    );
  };
};

const ahead = createFetchAhead((...request) => fetch(...request));
ahead.begin("/api/session");

/** The report takes longer than the session, which decides what is shown: it is requested before anything is drawn. */
const beginFleetReport = async () => {
  const { fleetReportPath } = await import("./fleet/fleet-page.tsx");
  const path = fleetReportPath(location.search);
  if (path !== undefined) ahead.begin(path);
};
// A script that cannot be loaded is reported in place of the page.
if (location.pathname === "/fleet") beginFleetReport().catch(() => undefined);

/** The pages for operators with scope `audit` that are loaded on demand: path, title until then, and the page. */
const auditPages: readonly (readonly [
  path: string,
  title: string,
  load: () => Promise<Component>,
])[] = [
  ["/fleet", "Fleet", async () => (await import("./fleet/fleet-page.tsx")).FleetPage],
  ["/hosts/:host", "Host", async () => (await import("./host/host-page.tsx")).HostPage],
  [
    "/data/completeness",
    "Completeness",
    async () => (await import("./completeness/completeness-page.tsx")).CompletenessPage,
  ],
  [
    "/access/inventory",
    "Inventory",
    async () => (await import("./inventory/inventory-page.tsx")).InventoryPage,
  ],
  ["/data/volume", "Volume", async () => (await import("./volume/volume-page.tsx")).VolumePage],
  ["/changes/audit", "Audit", async () => (await import("./audit/audit-page.tsx")).AuditPage],
  [
    "/changes/configs",
    "Configs",
    async () => (await import("./configs/configs-page.tsx")).ConfigsPage,
  ],
  [
    "/changes/configs/:id",
    "Config",
    async () => (await import("./configs/config-page.tsx")).ConfigPage,
  ],
  [
    "/changes/rollouts",
    "Rollouts",
    async () => (await import("./rollouts/rollouts-page.tsx")).RolloutsPage,
  ],
  [
    "/changes/rollouts/:id",
    "Rollout",
    async () => (await import("./rollouts/rollout-page.tsx")).RolloutPage,
  ],
  [
    "/access/enrollment",
    "Enrollment",
    async () => (await import("./enrollment/enrollment-page.tsx")).EnrollmentPage,
  ],
  ["/watches", "Watches", async () => (await import("./watches/watches-page.tsx")).WatchesPage],
  ["/watches/:id", "Watch", async () => (await import("./watches/watches-page.tsx")).WatchPage],
  ["/watches/new", "Watch", async () => (await import("./watches/watch-forms.tsx")).NewWatchPage],
  [
    "/watches/:id/change",
    "Watch",
    async () => (await import("./watches/watch-forms.tsx")).ChangeWatchPage,
  ],
  ["/system", "System", async () => (await import("./system/system-page.tsx")).SystemPage],
];

// Created once: a component made inside the JSX would be another one at each access.
const routes = [
  { path: "/", component: lazyRoute(async () => (await import("./now/now-page.tsx")).NowPage) },
  ...auditPages.map(([path, title, load]) => ({ path, component: auditRoute(title, load) })),
  { path: "*", component: NoSuchPage },
];

const App = () => {
  // Not in the JSX, where each access would create another client.
  const api = createApiClient(ahead);
  return (
    <PageContextProvider api={api}>
      <Router root={Shell}>{routes}</Router>
    </PageContextProvider>
  );
};

// The router rejects an empty segment: an identity pasted as it is becomes one segment.
const shown = location.pathname.replace(
  /^\/hosts\/([^/]+:\/\/.+)$/,
  (_, pasted: string) => `/hosts/${encodeURIComponent(pasted)}`,
);
history.replaceState(null, "", presentAddress(shown) + location.search + location.hash);

const root = document.getElementById("root");
if (root === null) throw new Error("index.html has no #root");
render(() => <App />, root);
