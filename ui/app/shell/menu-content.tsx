import { createSignal, For, Show } from "solid-js";
import { claimTab } from "../browser/stored-text.ts";
import { readTheme, showTheme, storeTheme, type Theme } from "../browser/theme.ts";
import { ChoiceField } from "../design/choice-field.tsx";
import { type TimeZone, zoneName } from "../format/format.ts";
import { usePageContext } from "../session/page-context.tsx";
import { createNavigation, PlacePages } from "./navigation.tsx";

/** The person's menu: system, times, theme and sign-out; on a narrow screen every page too. */
export const MenuContent = () => {
  const { session } = usePageContext();
  const { seen, seesFleet, current } = createNavigation();
  return (
    <>
      <nav class="shell-tree" aria-label="All pages">
        <For each={seen()}>
          {(place) => (
            <p>
              <span class="quiet">{place.name}</span>
              <PlacePages of={place} />
            </p>
          )}
        </For>
      </nav>
      <Show when={session()}>
        {(known) => (
          <>
            <p>
              <strong>{known().user.display_name}</strong>
              <span class="second-line">{known().user.email}</span>
            </p>
            <Show when={seesFleet()}>
              <a href="/system" aria-current={current("/system")}>
                System
              </a>
            </Show>
            <a href="/#access">Your scopes</a>
          </>
        )}
      </Show>
      <Choices />
      <Show when={session()}>
        <form method="post" action="/api/auth/logout" onSubmit={() => claimTab("")}>
          <button class="button" type="submit">
            Sign out
          </button>
        </form>
      </Show>
    </>
  );
};

/** The choices of this browser, which apply at once and are stored: the zone of absolute times, and the theme. */
const Choices = () => {
  const { times, coreNow } = usePageContext();
  const [theme, setTheme] = createSignal(readTheme());
  return (
    <div class="row">
      <ChoiceField
        name="Times"
        choices={{ utc: "UTC", local: `Local, ${zoneName(coreNow(), "local")}` }}
        chosen={times.zone()}
        onChange={(zone) => times.choose(zone as TimeZone)}
      />
      <ChoiceField
        name="Theme"
        choices={{ system: "System", light: "Light", dark: "Dark" }}
        chosen={theme()}
        onChange={(chosen) => {
          storeTheme(chosen as Theme);
          showTheme(setTheme(chosen as Theme));
        }}
      />
    </div>
  );
};
