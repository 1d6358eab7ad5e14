def render_report(comparison):
    return "temporary"
