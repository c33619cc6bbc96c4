import { type Component, ErrorBoundary, lazy, Suspense } from "solid-js";
import { Banner, ReloadButton } from "./report-parts.tsx";

/** Reports that a part of the page could not be loaded. */
const PartFailed = (props: { what: string }) => (
  <Banner class="part-failed" role="alert">
    {props.what} could not be loaded. The server may have a newer version of this page.
    <ReloadButton />
  </Banner>
);

/** Returns a part whose script is loaded on demand: `Loading` until it is there, and what failed if it cannot be loaded. */
export const lazyPart = <Props extends object>(
  what: string,
  load: () => Promise<Component<Props>>,
  Loading: Component = () => undefined,
): Component<Props> => {
  const Part: Component<Props> = lazy(async () => ({ default: await load() }));
  return (props) => (
    <ErrorBoundary fallback={<PartFailed what={what} />}>
      <Suspense fallback={<Loading />}>
        <Part {...props} />
      </Suspense>
    </ErrorBoundary>
  );
};
