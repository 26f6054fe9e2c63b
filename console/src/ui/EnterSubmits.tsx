/** Lets Enter submit a form whose button is outside it, as in the foot of a dialog: a browser looks for one inside. */
export function EnterSubmits() {
  return <button type="submit" className="visually-hidden" tabIndex={-1} aria-hidden="true" />;
}
