import { type Component, ErrorBoundary, lazy, Suspense } from "solid-js";
import { PartFailed } from "../design/load-failure.tsx";
import { RequiresScope } from "../session/session-gate.tsx";
import { createPageTitle } from "./page-title.ts";

/**
 * Returns the component of a route for operators with scope `audit`; others see which scope is missing. The page sets a title of its own
 * once it is loaded.
 */
export const auditRoute = (title: string, Page: Component): Component => {
  const Route = () => {
    createPageTitle(() => title);
    return (
      <RequiresScope scope="audit">
        <ErrorBoundary fallback={<PartFailed what="The page" />}>
          <Suspense>
            <Page />
          </Suspense>
        </ErrorBoundary>
      </RequiresScope>
    );
  };
  return Route;
};

/** Returns `auditRoute` of a page that is loaded on demand. */
export const lazyAuditRoute = (title: string, load: () => Promise<Component>): Component =>
  auditRoute(
    title,
    lazy(async () => ({ default: await load() })),
  );
