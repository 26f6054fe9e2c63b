import { translate } from "@/i18n";

/** Where a sign-in came from. Names of cities are as the API has them. */
export function placeText(location: string | null): string {
  if (location === "local network") return translate("accPlaceLocal");
  return location && location !== "unknown" ? location : translate("accPlaceUnknown");
}
