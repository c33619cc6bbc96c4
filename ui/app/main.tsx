import { Router } from "@solidjs/router";
import type { Component } from "solid-js";
import { Dynamic, render } from "solid-js/web";
import { createApiClient, fetchAhead } from "./api/api-client.ts";
import { presentAddress } from "./browser/places.ts";
import { lazyPart, PartBoundary } from "./design/report-parts.tsx";
import { FleetPage } from "./fleet/fleet-page.tsx";
import { linkFaults, parseView, reportPath } from "./fleet/view/view-state.ts";
import { PageContextProvider } from "./session/page-context.tsx";
import { RequiresScope } from "./session/session-gate.tsx";
import { createPageTitle } from "./shell/page-title.ts";
import { NoSuchPage, Shell } from "./shell/shell.tsx";

const what = "The page";

/**
 * Returns the component of a route for operators with scope `audit`; others see which scope is missing. The page sets a title of its own
 * once it is loaded.
 */
const auditRoute = (title: string, Page: Component): Component => {
  const Route = () => {
    createPageTitle(() => title);
    return (
      <RequiresScope scope="audit">
        <PartBoundary what={what}>
          <Dynamic component={Page} />
        </PartBoundary>
      </RequiresScope>
    );
  };
  return Route;
};

/** Returns the component of a route for everyone, with a page that is loaded on demand. */
const lazyRoute = (load: () => Promise<Component>): Component => lazyPart(what, load);

/** Returns `auditRoute` of a page that is loaded on demand. */
const lazyAuditRoute = (title: string, load: () => Promise<Component>): Component =>
  auditRoute(title, lazyRoute(load));

/** The report takes longer than the session, which decides what is shown: both are requested at once, before anything is drawn. */
const pathsAhead = (): string[] => [
  "/api/session",
  ...(location.pathname === "/fleet" && linkFaults(location.search).length === 0
    ? [reportPath(parseView(location.search))]
    : []),
];

/** The pages for operators with scope `audit` that are loaded on demand: path, title until then, and the page. */
const auditPages: readonly (readonly [
  path: string,
  title: string,
  load: () => Promise<Component>,
])[] = [
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
  { path: "/", component: lazyRoute(async () => (await import("./home/home-page.tsx")).HomePage) },
  { path: "/fleet", component: auditRoute("Fleet", FleetPage) },
  ...auditPages.map(([path, title, load]) => ({ path, component: lazyAuditRoute(title, load) })),
  { path: "*", component: NoSuchPage },
];

const App = () => {
  // Not in the JSX, where each access would create another client.
  const api = createApiClient({
    fetch: fetchAhead((...request) => fetch(...request), pathsAhead()),
  });
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
